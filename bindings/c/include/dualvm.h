/*
 * dualvm: an embeddable virtual machine in which every real number can be differentiated.
 *
 * Made by cbindgen of the sources in bindings/c/src; header/tests/header.rs there makes it anew. README.md there
 * says once for all functions who owns what, which threads may call what, what errors are, and how to build and link.
 */

#ifndef DUALVM_H
#define DUALVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// In the place of a text's length: the text ends with a null.
#define DUALVM_NUL_TERMINATED SIZE_MAX

// In the place of a length that isn't always the same, and of the number of a parameter where there is none.
#define DUALVM_NONE SIZE_MAX

// The version of this interface: what it promises to programs that were built against a header. It grows when one of
// these has to be built again; what is added doesn't count.
#define DUALVM_ABI_VERSION 1

// What a function returns: `DUALVM_STATUS_OK`, or what kind of error there was. Later versions may have more kinds;
// treat those that you don't know as errors.
enum dualvm_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // It was done.
    DUALVM_STATUS_OK = 0,
    // A mistake in the call itself: a pointer that is null or not aligned, a text that isn't UTF-8, a wrong number of
    // values or places for them, a number that is out of range. Nothing has happened.
    DUALVM_STATUS_INVALID_ARGUMENT = 1,
    // A handle was freed before, is one of another kind, or never was one. Nothing has happened.
    DUALVM_STATUS_INVALID_HANDLE = 2,
    // What the handle stands for is in use: by another thread, or further up in the same one. Nothing has happened.
    // After `INTERNAL` it stays so, because nobody knows what state it is in.
    DUALVM_STATUS_BUSY = 3,
    // A program's text has errors. Show the message to who wrote it.
    DUALVM_STATUS_SOURCE = 4,
    // Bytes are no module in binary form, or break rules of the verifier. Refuse them.
    DUALVM_STATUS_MODULE = 5,
    // There is no function or parameter of this name, or it can't be used so.
    DUALVM_STATUS_NOT_FOUND = 6,
    // The function has no flat calls, because of the type of a parameter or of its result. Call it with JSON.
    DUALVM_STATUS_NOT_FLAT = 7,
    // Arguments, tangents or cotangents are not those of the function.
    DUALVM_STATUS_ARGUMENT = 8,
    // A gradient was asked of a function whose result is not one real.
    DUALVM_STATUS_NOT_SCALAR = 9,
    // The program has run, and its result can't be handed over: it nests too deep, say.
    DUALVM_STATUS_RESULT = 10,
    // The program stopped itself, or did what can't be done: a division of integers by zero, an index out of bounds.
    // The places of the error are the calls that led there, the innermost first.
    DUALVM_STATUS_TRAP = 11,
    // The program, or its compilation, has reached a limit: `dualvm_error_limit` says which.
    DUALVM_STATUS_LIMIT = 12,
    // The program, or its compilation, was cancelled.
    DUALVM_STATUS_CANCELLED = 13,
    // A mistake of the library. Please report it.
    DUALVM_STATUS_INTERNAL = 14,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dualvm_status dualvm_status;
#else
typedef int32_t dualvm_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A limit of a call or of a compilation. Counts are numbers, times are nanoseconds, sizes are bytes.
enum dualvm_limit
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // No limit, in `dualvm_error_limit`.
    DUALVM_LIMIT_NONE = 0,
    // Instructions of a call, in the forward run and in the sweep together. Default 10^15, untrusted 10^10.
    DUALVM_LIMIT_FUEL = 1,
    // Wall-clock time of a call; 0: none. It ends at most 10 ms and a twentieth of this time later. Default none,
    // untrusted 5 s.
    DUALVM_LIMIT_DEADLINE_NS = 2,
    // Bytes that a call may allocate for its objects, whether they stay in use or not. Default 2^63, untrusted 16 GiB.
    DUALVM_LIMIT_ALLOCATED_BYTES = 3,
    // Bytes that its objects and frames may hold at one time. Default 4 GiB, untrusted 64 MiB.
    DUALVM_LIMIT_LIVE_BYTES = 4,
    // Bytes that tape and adjoints may hold. Default 8 GiB, untrusted 64 MiB.
    DUALVM_LIMIT_TAPE_BYTES = 5,
    // Calls of functions of the program that have not returned. Default 2,000,000, untrusted 100,000.
    DUALVM_LIMIT_DEPTH = 6,
    // Time that a call may spend on compiling to native code. What would take longer stays interpreted; that is no
    // error. Default one minute, untrusted 0.5 s.
    DUALVM_LIMIT_NATIVE_TIME_NS = 7,
    // Bytes that the module's native code may take for a call to add to it. Beyond, code stays interpreted. Default
    // 256 MiB, untrusted 16 MiB.
    DUALVM_LIMIT_NATIVE_BYTES = 8,
    // Bytes of a program's text, with the files that it imports. Default 16 MiB, untrusted 256 KiB.
    DUALVM_LIMIT_SOURCE_BYTES = 9,
    // Wall-clock time of a compilation from text; 0: none. Default none, untrusted 1 s.
    DUALVM_LIMIT_SOURCE_DEADLINE_NS = 10,
    // Tokens and nodes of the syntax tree. Default 50,000,000, untrusted 300,000.
    DUALVM_LIMIT_SYNTAX_NODES = 11,
    // Nodes of inferred types. Default 100,000,000, untrusted 1,000,000.
    DUALVM_LIMIT_TYPE_NODES = 12,
    // Expressions and instructions that definitions become. Default 100,000,000, untrusted 500,000.
    DUALVM_LIMIT_CODE_NODES = 13,
    // Bytes that a compilation may hold at one time, by a cautious estimate. Default 4 GiB, untrusted 128 MiB.
    DUALVM_LIMIT_SOURCE_MEMORY_BYTES = 14,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dualvm_limit dualvm_limit;
#else
typedef uint32_t dualvm_limit;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a type is.
enum dualvm_type_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // A type of a later version, of which this one knows nothing. No children.
    DUALVM_TYPE_KIND_OTHER = 0,
    // `Real`. No children.
    DUALVM_TYPE_KIND_REAL = 1,
    // `Int`. No children.
    DUALVM_TYPE_KIND_INT = 2,
    // `Bool`. No children.
    DUALVM_TYPE_KIND_BOOL = 3,
    // A tuple: its parts are the children. The empty tuple is unit.
    DUALVM_TYPE_KIND_TUPLE = 4,
    // A record: its fields are the children, with their names, in the order of these.
    DUALVM_TYPE_KIND_RECORD = 5,
    // An array: its elements' type is the only child.
    DUALVM_TYPE_KIND_ARRAY = 6,
    // A list: its elements' type is the only child.
    DUALVM_TYPE_KIND_LIST = 7,
    // A matrix or a tensor of `rank` dimensions: its elements' type is the only child.
    DUALVM_TYPE_KIND_TENSOR = 8,
    // A data type: its constructors are the children, with their names; each is a tuple or a record of what it takes.
    // A data type may contain itself: then a child leads back to it.
    DUALVM_TYPE_KIND_DATA = 9,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dualvm_type_kind dualvm_type_kind;
#else
typedef uint32_t dualvm_type_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a leaf is, which is a part of a parameter or of a result that crosses the border as one `dualvm_value`.
enum dualvm_leaf_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // A real: `DUALVM_VALUE_KIND_REAL`.
    DUALVM_LEAF_KIND_REAL = 1,
    // An integer: `DUALVM_VALUE_KIND_INT`.
    DUALVM_LEAF_KIND_INT = 2,
    // A boolean: `DUALVM_VALUE_KIND_INT`, 0 or 1.
    DUALVM_LEAF_KIND_BOOL = 3,
    // Any number of reals, of an array, a list, or a tensor row by row: `DUALVM_VALUE_KIND_REALS`.
    DUALVM_LEAF_KIND_REALS = 4,
    // Any number of integers: `DUALVM_VALUE_KIND_INTS`.
    DUALVM_LEAF_KIND_INTS = 5,
    // Any number of booleans: `DUALVM_VALUE_KIND_INTS`, each 0 or 1.
    DUALVM_LEAF_KIND_BOOLS = 6,
    // The shape of a matrix or of a tensor, whose elements are the next leaf: `DUALVM_VALUE_KIND_INTS`, one for each
    // dimension.
    DUALVM_LEAF_KIND_SHAPE = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dualvm_leaf_kind dualvm_leaf_kind;
#else
typedef uint32_t dualvm_leaf_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// When functions are compiled to native code. Results, traps and the use of fuel are the same in any case.
enum dualvm_native
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // When interpreting them has taken about as long as compiling them will; the default.
    DUALVM_NATIVE_AUTO = 0,
    // Never: everything is interpreted.
    DUALVM_NATIVE_NEVER = 1,
    // Before they run for the first time.
    DUALVM_NATIVE_ALWAYS = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dualvm_native dualvm_native;
#else
typedef uint32_t dualvm_native;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A side of a flat call.
enum dualvm_side
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // What it takes. Tangents and gradients have as many.
    DUALVM_SIDE_PARAMS = 0,
    // What it gives. Cotangents are as many.
    DUALVM_SIDE_RESULTS = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dualvm_side dualvm_side;
#else
typedef uint32_t dualvm_side;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a `dualvm_value` is.
enum dualvm_value_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Nothing: in the place of a derivative, a tangent or a cotangent of what has none.
    DUALVM_VALUE_KIND_NULL = 0,
    // `of.real`.
    DUALVM_VALUE_KIND_REAL = 1,
    // `of.integer`; of a boolean 0 or 1.
    DUALVM_VALUE_KIND_INT = 2,
    // `len` reals at `of.reals`.
    DUALVM_VALUE_KIND_REALS = 3,
    // `len` integers at `of.integers`; of booleans each 0 or 1.
    DUALVM_VALUE_KIND_INTS = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dualvm_value_kind dualvm_value_kind;
#else
typedef uint32_t dualvm_value_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Bytes that the library has made: a module in binary form, a text in JSON. Freed by who was given them. Any number of
// threads may read them.
typedef struct dualvm_bytes dualvm_bytes;

// Lets another thread, or a signal handler, stop calls and compilations that were given it. It can't be taken back;
// make a new one for the next. Any number of threads may use it.
typedef struct dualvm_cancel dualvm_cancel;

// How an engine works. One thread at a time may change it.
typedef struct dualvm_config dualvm_config;

// Runs programs: it owns the memory that runs use again, and the threads of parallel ones. Make one and share it,
// among any number of threads.
typedef struct dualvm_engine dualvm_engine;

// What went wrong. Made by the function that has failed, and freed by its caller. Any number of threads may read it.
typedef struct dualvm_error dualvm_error;

// A function, prepared to be called with numbers and arrays again and again, and the memory of its last call: what
// other interfaces call a prepared statement. One thread's at a time: each thread that calls needs one of its own.
// From the second call on nothing is allocated.
typedef struct dualvm_frame dualvm_frame;

// A function of a module. It may be called by any number of threads at a time: with JSON as it is, with numbers and
// arrays through frames of their own.
typedef struct dualvm_function dualvm_function;

// A function of yours that programs call, with its derivatives. One thread at a time may change it; engines that were
// made with it keep it as it was then.
typedef struct dualvm_host dualvm_host;

// A call of a function of yours, while it runs.
typedef struct dualvm_host_call dualvm_host_call;

// A program that was compiled and verified: running it can't do more than compute, stop or reach a limit, whatever it
// came from. Any number of threads may use it.
typedef struct dualvm_module dualvm_module;

// What a call or a compilation may use, who may cancel it, and which files a program may import. What isn't set is
// the engine's, or the default. One thread at a time may change it; calls copy what they need of it.
typedef struct dualvm_options dualvm_options;

// A place that an error is about. What it points to lives as long as the error.
typedef struct dualvm_place {
    // The file, as it was named when the module was compiled; empty if it isn't known.
    const char *file;
    // The function in whose code the place is; empty if it isn't known.
    const char *function;
    // What is to be said about this place, on one line; may be empty.
    const char *message;
    // The line, from 1; 0 if it isn't known.
    uint32_t line;
    // The column in characters, from 1; 0 if it isn't known.
    uint32_t column;
} dualvm_place;

// A type of a function: a row of its table of types.
typedef struct dualvm_type {
    // What it is.
    dualvm_type_kind kind;
    // How many dimensions a tensor has; 1 for an array, 0 for all else.
    uint32_t rank;
    // How many children it has.
    size_t child_count;
    // The name of a data type; null for all else. Lives as long as the function.
    const char *name;
} dualvm_type;

// A part of a type.
typedef struct dualvm_type_child {
    // The number of its type.
    size_t ty;
    // The name of a field or of a constructor; null for all else. Lives as long as the function.
    const char *name;
} dualvm_type_child;

// A leaf of a function.
typedef struct dualvm_leaf {
    // What it is.
    dualvm_leaf_kind kind;
    // 1 if gradients have derivatives with respect to it: it is of reals, of a parameter, and the function is
    // differentiated with respect to that; else 0, and in gradients and tangents stands null.
    uint32_t has_derivative;
    // The number of the parameter that it is a part of; `DUALVM_NONE` if it is a part of the result.
    size_t param;
    // How many numbers it is: 1, as many as a shape has dimensions, or `DUALVM_NONE` if that is for each call to say.
    size_t len;
    // How many numbers make an element, one after the other: 3 for an array of triples, whose length they divide.
    size_t width;
    // How many dimensions the matrix or tensor has that it is a part of; 0 if it is of none.
    size_t rank;
    // Where it is: the parameter's name or "result", then numbers of parts and names of fields, as in "p.1.mass".
    // Lives as long as the function.
    const char *place;
} dualvm_leaf;

// What a call has used.
typedef struct dualvm_stats {
    // Fuel used: instructions of the forward run and of the sweep.
    uint64_t instructions;
    // Records on the tape.
    uint64_t records;
    // Reals that have a place for an adjoint.
    uint64_t slots;
    // Bytes of records.
    uint64_t tape_bytes;
    // Bytes of objects that were allocated.
    uint64_t allocated_bytes;
    // The most bytes that objects and frames held at one time.
    uint64_t heap_peak_bytes;
    // The most bytes that arrays of adjoints held at one time; small ones don't count.
    uint64_t sweep_peak_bytes;
    // Tasks: the call itself, and what its forks ran.
    uint64_t tasks;
    // Instructions along the longest way through the forks: `instructions` by this is how many threads the program can
    // keep busy.
    uint64_t span;
    // Nanoseconds of the forward run; 0 if the clock wasn't looked at (`dualvm_options_set_timed`).
    uint64_t forward_ns;
    // Nanoseconds of the sweep; the same.
    uint64_t sweep_ns;
    // For later versions; 0.
    uint64_t reserved[5];
} dualvm_stats;

// The number of a `dualvm_value`, or where its numbers are.
typedef union dualvm_payload {
    // A real.
    double real;
    // An integer or a boolean.
    int64_t integer;
    // Reals, one after the other.
    const double *reals;
    // Integers or booleans, one after the other.
    const int64_t *integers;
} dualvm_payload;

// An argument, a result, a derivative, a tangent or a cotangent of a flat call. Arrays are neither copied nor owned:
// as an argument they are the caller's, read during the call only, and nothing may write to them, or free them, or use
// another frame whose results they are, before it has ended, a host function neither; as a result they are the
// frame's, until its next call.
typedef struct dualvm_value {
    // A `dualvm_value_kind`.
    uint32_t kind;
    // Nothing; may have any value.
    uint32_t reserved;
    // The number, or where the numbers are: aligned to 8 bytes, or anything at all if there are none.
    union dualvm_payload of;
    // How many numbers there are; of a single one nobody looks at it.
    size_t len;
} dualvm_value;

// What the items of a batch have at one leaf: arguments, tangents or cotangents.
//
// `first` is what the first item has, as for a flat call, and `stride` says how many numbers further that of the next
// item begins. With a stride of 0 all items have the same. A leaf that is one number is either one for all items
// (`DUALVM_VALUE_KIND_REAL` or `_INT`, stride 0), or an array of length 1 with a stride.
typedef struct dualvm_column {
    // What the first item has.
    struct dualvm_value first;
    // How many numbers further the next item's are.
    size_t stride;
} dualvm_column;

// A function of yours. `data` is what was given with it. `args` are its arguments, `args_len` of them, which live
// until it returns. It gives its results, in order, by `dualvm_host_call_give`, and returns 0; or anything else, and
// then the program stops with what `dualvm_host_call_fail` has said. It is called by any thread, by several at a time,
// and gives the same results for the same arguments. It may use the library, but neither `longjmp` nor throw out of
// itself.
typedef int (*dualvm_host_function)(void *data,
                                    struct dualvm_host_call *call,
                                    const struct dualvm_value *args,
                                    size_t args_len);

// Frees what was given with a function: called once, by any thread, when nothing needs it any more.
typedef void (*dualvm_host_drop)(void *data);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// `DUALVM_ABI_VERSION` of the library that is running. A program that loads the library at run time compares it with
// its header's.
uint32_t dualvm_abi_version(void);

// The version of the library, as in "0.1.0". Lives forever.
const char *dualvm_version(void);

// How many handles there are that weren't freed, of all kinds: a test of a program ends with none. Tools that look for
// lost memory don't see them.
size_t dualvm_handle_count(void);

// A word or two for a status, for logs: "limit", "invalid handle". Never null; lives forever. `status` is a
// `dualvm_status`; of other numbers it says "unknown status".
const char *dualvm_status_name(int32_t status);

// Frees an error. Null is fine.
void dualvm_error_free(struct dualvm_error *error);

// What kind of error it is: what the function has returned. `DUALVM_STATUS_OK` for null, and
// `DUALVM_STATUS_INVALID_HANDLE` for what is no error.
dualvm_status dualvm_error_status(const struct dualvm_error *error);

// What went wrong, for people: several lines where there is that much to say, with the lines of the program that it is
// about. Without a line break at the end. Never null; lives as long as the error. Empty for null and for what is no
// error.
const char *dualvm_error_message(const struct dualvm_error *error);

// The same on one line, without places: for a status bar or a log. Lives as long as the error.
const char *dualvm_error_summary(const struct dualvm_error *error);

// Which limit was reached, if the status is `DUALVM_STATUS_LIMIT`. `DUALVM_LIMIT_NONE` for other errors, and for
// limits that no call sets: how far stacks may grow (`dualvm_config_set_stack_bytes`), and the system's memory.
dualvm_limit dualvm_error_limit(const struct dualvm_error *error);

// How many places the error has: those of all mistakes in a program's text, or the calls that led to where a program
// has stopped, the innermost first. 0 for other errors.
size_t dualvm_error_place_count(const struct dualvm_error *error);

// A place of the error, by its number from 0.
//
// Errors: `INVALID_ARGUMENT` if there are not so many.
dualvm_status dualvm_error_place(const struct dualvm_error *of,
                                 size_t n,
                                 struct dualvm_place *place,
                                 struct dualvm_error **error);

// Frees bytes. Null is fine.
void dualvm_bytes_free(struct dualvm_bytes *bytes);

// The first byte. Behind the last one there is a null, so that a text is one for C. Lives as long as the handle; an
// empty text for null and for what is no handle.
const char *dualvm_bytes_data(const struct dualvm_bytes *bytes);

// How many bytes there are, without the null behind them. 0 for null and for what is no handle.
size_t dualvm_bytes_len(const struct dualvm_bytes *bytes);

// Makes a handle that cancels.
dualvm_status dualvm_cancel_new(struct dualvm_cancel **cancel, struct dualvm_error **error);

// Frees a handle that cancels. Null is fine. Calls that were given it go on, and can't be cancelled any more.
void dualvm_cancel_free(struct dualvm_cancel *cancel);

// Stops every call and every compilation that was given this handle, now and later; they end with
// `DUALVM_STATUS_CANCELLED`, within a millisecond or so. May be called from any thread and from a signal handler: it
// takes no lock and allocates nothing, and so it makes no error object.
//
// Errors: `INVALID_HANDLE`.
dualvm_status dualvm_cancel_request(const struct dualvm_cancel *cancel);

// Whether it was requested. False for null and for what is no handle.
bool dualvm_cancel_is_requested(const struct dualvm_cancel *cancel);

// Makes options of which nothing is set.
dualvm_status dualvm_options_new(struct dualvm_options **options, struct dualvm_error **error);

// Frees options. Null is fine. What was made with them keeps what it needs.
void dualvm_options_free(struct dualvm_options *options);

// From now on limits that aren't set are those for programs from strangers: seconds of time, tens of megabytes of
// memory. `dualvm_limit` has them. Limits that were set stay.
dualvm_status dualvm_options_set_untrusted(struct dualvm_options *options, struct dualvm_error **error);

// Sets a limit. `limit` is a `dualvm_limit`.
//
// Errors: `INVALID_ARGUMENT` if `limit` is none of these.
dualvm_status dualvm_options_set_limit(struct dualvm_options *options,
                                       uint32_t limit,
                                       uint64_t value,
                                       struct dualvm_error **error);

// Says what a limit is in these options, on an engine with default limits.
//
// Errors: `INVALID_ARGUMENT` if `limit` is no `dualvm_limit`.
dualvm_status dualvm_options_limit(const struct dualvm_options *options,
                                   uint32_t limit,
                                   uint64_t *value,
                                   struct dualvm_error **error);

// Lets `cancel` stop calls and compilations with these options; null: nothing stops them. `cancel` may be freed
// before the options.
dualvm_status dualvm_options_set_cancel(struct dualvm_options *options,
                                        const struct dualvm_cancel *cancel,
                                        struct dualvm_error **error);

// Whether flat calls with these options look at the clock, so that `dualvm_frame_stats` has times: not, unless this is
// set, because that takes as long as a small program. `timed`: 0 or not.
dualvm_status dualvm_options_set_timed(struct dualvm_options *options, int timed, struct dualvm_error **error);

// Whether calls with these options copy the arrays that they are given before the program runs, so that a host
// function may write to them: not, unless this is set, because long ones needn't be copied otherwise. `copy`: 0 or
// not.
dualvm_status dualvm_options_set_copy_arguments(struct dualvm_options *options, int copy, struct dualvm_error **error);

// Gives programs a file that they may import by this name, as in `import shapes`. The text is copied; what had the
// name is replaced. Programs import nothing else but modules that they are given and the language's library: no file
// is ever opened.
//
// `len`: bytes of the text, or `DUALVM_NUL_TERMINATED`. Errors: `INVALID_ARGUMENT` for what isn't UTF-8.
dualvm_status dualvm_options_add_file(struct dualvm_options *options,
                                      const char *file,
                                      const char *source,
                                      size_t len,
                                      struct dualvm_error **error);

// Gives programs a module, of whichever engine, that they may import by this name, as in `import shapes`: it isn't
// compiled again. What had the name is replaced. The module may be freed then.
dualvm_status dualvm_options_add_module(struct dualvm_options *options,
                                        const char *file,
                                        const struct dualvm_module *module,
                                        struct dualvm_error **error);

// Makes a configuration of which nothing is set.
dualvm_status dualvm_config_new(struct dualvm_config **config, struct dualvm_error **error);

// Frees a configuration. Null is fine. Engines that were made with it keep what they need.
void dualvm_config_free(struct dualvm_config *config);

// The limits of calls that bring none of their own: those of these options. Other options don't matter here.
dualvm_status dualvm_config_set_limits(struct dualvm_config *config,
                                       const struct dualvm_options *limits,
                                       struct dualvm_error **error);

// How many threads run the tasks of programs that have some, and their sweeps. 0, the default: one per core. 1: the
// thread that calls. Results are the same bits for any number. At most 65536.
dualvm_status dualvm_config_set_threads(struct dualvm_config *config, size_t threads, struct dualvm_error **error);

// When functions are compiled to native code: `native` is a `dualvm_native`.
dualvm_status dualvm_config_set_native(struct dualvm_config *config, uint32_t native, struct dualvm_error **error);

// How far each of the six stacks of a run may grow, in bytes; 0, the default: 16 GiB. Nothing is reserved, only
// addresses are.
dualvm_status dualvm_config_set_stack_bytes(struct dualvm_config *config, size_t bytes, struct dualvm_error **error);

// Whether calls stop, as a trap that says how it came about, at the first number that becomes NaN or infinite out of
// numbers that aren't. For finding mistakes: everything is interpreted, and takes some ten times as long. `stops`: 0,
// the default, or not.
dualvm_status dualvm_config_set_trap_nan(struct dualvm_config *config, int stops, struct dualvm_error **error);

// Gives programs of engines with this configuration the functions of a module, of whichever engine: what
// `import host "name.function" : type` means in a program, and an import of that name in bytecode. `len`: bytes of the
// name, or `DUALVM_NUL_TERMINATED`. It takes the place of the module that had the name before. The module may be freed
// then. What it imports itself is looked for in the configuration, too.
dualvm_status dualvm_config_define_module(struct dualvm_config *config,
                                          const char *name,
                                          size_t len,
                                          const struct dualvm_module *module,
                                          struct dualvm_error **error);

// Makes an engine with this configuration; null: with the default one.
dualvm_status dualvm_engine_new(const struct dualvm_config *config,
                                struct dualvm_engine **engine,
                                struct dualvm_error **error);

// Frees an engine. Null is fine. Modules, functions and frames that were made with it stay good, and keep what they
// need of it.
void dualvm_engine_free(struct dualvm_engine *engine);

// How many threads run tasks. 0 for null and for what is no engine.
size_t dualvm_engine_threads(const struct dualvm_engine *engine);

// Bytes of memory that the engine keeps for runs to come, without stacks. 0 for null and for what is no engine.
uint64_t dualvm_engine_kept_bytes(const struct dualvm_engine *engine);

// Compiles a program in dualvm's language.
//
// `file` names it in messages; nothing is opened. `len`: bytes of the text, or `DUALVM_NUL_TERMINATED`. `options`:
// limits of the compilation, who may cancel it, files to import; null: the defaults.
//
// Errors: `SOURCE` with the places of all mistakes, `LIMIT`, `CANCELLED`; `INVALID_ARGUMENT` for what isn't UTF-8.
dualvm_status dualvm_module_from_source(const struct dualvm_engine *engine,
                                        const char *file,
                                        const char *source,
                                        size_t len,
                                        const struct dualvm_options *options,
                                        struct dualvm_module **module,
                                        struct dualvm_error **error);

// Loads a module in binary form, which is verified, whoever wrote it. The bytes are copied.
//
// Errors: `MODULE` if they are none, or break a rule of the verifier.
dualvm_status dualvm_module_from_bytes(const struct dualvm_engine *engine,
                                       const uint8_t *bytes,
                                       size_t len,
                                       struct dualvm_module **module,
                                       struct dualvm_error **error);

// Frees a module. Null is fine. Functions of it stay good.
void dualvm_module_free(struct dualvm_module *module);

// The module in binary form, which `dualvm_module_from_bytes` loads without the compiler. Equal modules have equal
// bytes. What it calls of other modules is in it, functions of the host's are not. Texts of source files aren't in it:
// traps still tell places, but don't show lines.
dualvm_status dualvm_module_to_bytes(const struct dualvm_module *module,
                                     struct dualvm_bytes **bytes,
                                     struct dualvm_error **error);

// What is probably not what was meant in the program, though it was compiled: for people, with the lines. Empty if
// there is nothing, for null and for what is no module. Lives as long as the module.
const char *dualvm_module_warnings(const struct dualvm_module *module);

// How many functions can be called. 0 for null and for what is no module.
size_t dualvm_module_function_count(const struct dualvm_module *module);

// The name of a function, by its number from 0, in the order of the program. Empty if there are not so many. Lives as
// long as the module.
const char *dualvm_module_function_name(const struct dualvm_module *module, size_t n);

// A function with the types of its parameters and of its result, as the program writes them:
// "area : (r : Real) -> Real". Empty if there are not so many. Lives as long as the module.
const char *dualvm_module_signature(const struct dualvm_module *module, size_t n);

// A function of the module, by its name.
//
// Errors: `NOT_FOUND`, with names that it may have been meant to be, or why it can't be called.
dualvm_status dualvm_module_function(const struct dualvm_module *module,
                                     const char *name,
                                     struct dualvm_function **function,
                                     struct dualvm_error **error);

// A function of the module, by its number from 0, in the order of the program.
//
// Errors: `NOT_FOUND` if there are not so many.
dualvm_status dualvm_module_function_at(const struct dualvm_module *module,
                                        size_t n,
                                        struct dualvm_function **function,
                                        struct dualvm_error **error);

// Frees a function. Null is fine. Frames that were made of it stay good.
void dualvm_function_free(struct dualvm_function *function);

// The function's name. Lives as long as the function; empty for null and for what is no function.
const char *dualvm_function_name(const struct dualvm_function *function);

// The function with the types of its parameters and of its result: "area : (r : Real) -> Real". Lives as long as the
// function; empty for null and for what is no function.
const char *dualvm_function_signature(const struct dualvm_function *function);

// How many parameters it has. 0 for null and for what is no function.
size_t dualvm_function_param_count(const struct dualvm_function *function);

// The name of a parameter, by its number from 0. Empty if there are not so many. Lives as long as the function.
const char *dualvm_function_param_name(const struct dualvm_function *function, size_t n);

// Whether derivatives are with respect to the parameter of this number. False if there are not so many.
bool dualvm_function_is_wrt(const struct dualvm_function *function, size_t n);

// The same function, with derivatives with respect to these parameters only. Reals in the others are constants: what
// depends on nothing else takes no tape and no time in the sweep, and has no derivative in gradients. A new handle,
// to be freed as well.
//
// Errors: `NOT_FOUND` if it has no parameter of one of these names.
dualvm_status dualvm_function_wrt(const struct dualvm_function *function,
                                  const char *const *names,
                                  size_t count,
                                  struct dualvm_function **restricted,
                                  struct dualvm_error **error);

// A type, by its number: first come those of the parameters, from 0 on, and next that of the result, whose number is
// that of the parameters. All others are children of these.
//
// Errors: `INVALID_ARGUMENT` if there are not so many.
dualvm_status dualvm_function_type(const struct dualvm_function *function,
                                   size_t ty,
                                   struct dualvm_type *info,
                                   struct dualvm_error **error);

// A child of a type, by its number from 0: a part, a field, the type of elements, or a constructor.
//
// Errors: `INVALID_ARGUMENT` if there are not so many.
dualvm_status dualvm_function_type_child(const struct dualvm_function *function,
                                         size_t ty,
                                         size_t n,
                                         struct dualvm_type_child *child,
                                         struct dualvm_error **error);

// How many values a flat call takes or gives. `side` is a `dualvm_side`.
//
// Errors: `NOT_FLAT`.
dualvm_status dualvm_function_leaf_count(const struct dualvm_function *function,
                                         uint32_t side,
                                         size_t *count,
                                         struct dualvm_error **error);

// A value that a flat call takes or gives, by its number from 0. `side` is a `dualvm_side`.
//
// Errors: `NOT_FLAT`; `INVALID_ARGUMENT` if there are not so many.
dualvm_status dualvm_function_leaf(const struct dualvm_function *function,
                                   uint32_t side,
                                   size_t n,
                                   struct dualvm_leaf *leaf,
                                   struct dualvm_error **error);

// Prepares a function to be called with numbers and arrays. `options`: limits of its calls, and who may cancel them;
// null: the engine's limits, and nobody.
//
// Errors: `NOT_FLAT` if a parameter or the result isn't made of numbers, arrays and lists of numbers, arrays of tuples
// of numbers, matrices and tensors of such.
dualvm_status dualvm_frame_new(const struct dualvm_function *function,
                               const struct dualvm_options *options,
                               struct dualvm_frame **frame,
                               struct dualvm_error **error);

// Frees a frame. Null is fine. A frame whose call is running, which no program should do, goes when the call is done.
void dualvm_frame_free(struct dualvm_frame *frame);

// Sets limits of the frame's next calls and who may cancel them; null: the engine's limits, and nobody. What the last
// call has left is gone.
dualvm_status dualvm_frame_set_options(struct dualvm_frame *frame,
                                       const struct dualvm_options *options,
                                       struct dualvm_error **error);

// Gives the memory of the last call back to the engine, for others. Its results and its tape are gone.
dualvm_status dualvm_frame_clear(struct dualvm_frame *frame, struct dualvm_error **error);

// Says what the last call has used, with the pullbacks of a recorded one.
//
// Errors: `INVALID_ARGUMENT` if there was no call, or it has failed.
dualvm_status dualvm_frame_stats(struct dualvm_frame *frame, struct dualvm_stats *stats, struct dualvm_error **error);

// Calls the function.
//
// There is an argument for each leaf of the parameters, and a place for each leaf of the result: those that
// `dualvm_function_leaf` describes. Arrays in `args` are read during the call, and may be what the last call of this
// frame has given. Arrays in `results` are the frame's until its next call. `results` may be null with a count of 0.
//
// Errors: `ARGUMENT` if an argument is not of its leaf's kind, `TRAP`, `LIMIT`, `CANCELLED`; `INVALID_ARGUMENT`, also
// for wrong counts; `BUSY`. On an error results stay as they were.
dualvm_status dualvm_call(struct dualvm_frame *frame,
                          const struct dualvm_value *args,
                          size_t arg_count,
                          struct dualvm_value *results,
                          size_t result_count,
                          struct dualvm_error **error);

// The value of a function that returns one real, and its gradient: all derivatives together take a small constant
// factor of the time of one call.
//
// Arguments are as for `dualvm_call`. `value` may be null. `gradient` has a place for each argument, and takes what is
// of the argument's kind and length, or null for what is discrete or not asked for (`dualvm_function_wrt`). Its arrays
// are the frame's until its next call. It may be null with a count of 0: `dualvm_frame_gradient` has it in one row.
//
// Errors: as `dualvm_call`, and `NOT_SCALAR` if the result is not one real.
dualvm_status dualvm_value_and_grad(struct dualvm_frame *frame,
                                    const struct dualvm_value *args,
                                    size_t arg_count,
                                    double *value,
                                    struct dualvm_value *gradient,
                                    size_t gradient_count,
                                    struct dualvm_error **error);

// The gradient that the last call has left, in one row: the derivatives with respect to all reals that are asked for,
// in order, those of an array side by side. `len` says how many there are. They are the frame's until its next call.
//
// Errors: `INVALID_ARGUMENT` if the last call was none with a gradient, or has failed.
dualvm_status dualvm_frame_gradient(struct dualvm_frame *frame,
                                    const double **reals,
                                    size_t *len,
                                    struct dualvm_error **error);

// `dualvm_value_and_grad`, with the gradient copied to the caller's memory, in one row: what an optimiser wants that
// has its unknowns in one vector. `len` is how many places there are: as many as reals are asked for.
//
// Errors: as `dualvm_value_and_grad`; `INVALID_ARGUMENT` if there are other than `len` reals, which is said after the
// run, where lengths of arrays are known. On an error nothing is written.
dualvm_status dualvm_value_and_grad_into(struct dualvm_frame *frame,
                                         const struct dualvm_value *args,
                                         size_t arg_count,
                                         double *value,
                                         double *gradient,
                                         size_t len,
                                         struct dualvm_error **error);

// The function's results, and the product of these cotangents of them with the Jacobian: one forward run and one
// sweep.
//
// There is a cotangent for each leaf of the result, of its kind and length, and null for what is discrete. `results`
// and `gradient` are as for `dualvm_call` and `dualvm_value_and_grad`.
//
// Errors: as `dualvm_call`; `ARGUMENT` if these are not the cotangents of the results.
dualvm_status dualvm_vjp(struct dualvm_frame *frame,
                         const struct dualvm_value *args,
                         size_t arg_count,
                         const struct dualvm_value *cotangents,
                         size_t cotangent_count,
                         struct dualvm_value *results,
                         size_t result_count,
                         struct dualvm_value *gradient,
                         size_t gradient_count,
                         struct dualvm_error **error);

// Calls the function and records the run, for `dualvm_pullback`. Else as `dualvm_call`.
dualvm_status dualvm_record(struct dualvm_frame *frame,
                            const struct dualvm_value *args,
                            size_t arg_count,
                            struct dualvm_value *results,
                            size_t result_count,
                            struct dualvm_error **error);

// Pulls cotangents back through the run that the last call of this frame has recorded: one sweep. As often as one
// likes, with other cotangents: a Jacobian, row by row. Its results stay as they are. Fuel and all limits but time are
// for the run and its pullbacks together.
//
// Errors: as `dualvm_vjp`; `INVALID_ARGUMENT` if the last call was not `dualvm_record`, or has failed.
dualvm_status dualvm_pullback(struct dualvm_frame *frame,
                              const struct dualvm_value *cotangents,
                              size_t cotangent_count,
                              struct dualvm_value *gradient,
                              size_t gradient_count,
                              struct dualvm_error **error);

// The function's results, and how they change as the arguments move in the direction of tangents: the product of the
// Jacobian and these. Forward mode: it takes about as long as two to three calls, and no tape.
//
// There is a tangent for each argument, of its kind and length, and null for what has no derivative
// (`dualvm_leaf.has_derivative`). `results` is as for `dualvm_call`; `moved` takes the tangents of the results, with
// null for what is discrete, and may be null with a count of 0.
//
// Errors: as `dualvm_call`; `ARGUMENT` if these are not tangents of the arguments.
dualvm_status dualvm_jvp(struct dualvm_frame *frame,
                         const struct dualvm_value *args,
                         size_t arg_count,
                         const struct dualvm_value *tangents,
                         size_t tangent_count,
                         struct dualvm_value *results,
                         size_t result_count,
                         struct dualvm_value *moved,
                         size_t moved_count,
                         struct dualvm_error **error);

// The value of a function that returns one real, its gradient, and the product of its Hessian and tangents: how the
// gradient changes as the arguments move in their direction. Some times the cost of a gradient, however many arguments
// there are.
//
// Tangents are as for `dualvm_jvp`. `value`, `gradient` and `product` are as for `dualvm_value_and_grad`, and each may
// be null; `count` is how many places `gradient` and `product` have.
//
// Errors: as `dualvm_jvp`, and `NOT_SCALAR`.
dualvm_status dualvm_hvp(struct dualvm_frame *frame,
                         const struct dualvm_value *args,
                         size_t arg_count,
                         const struct dualvm_value *tangents,
                         size_t tangent_count,
                         double *value,
                         struct dualvm_value *gradient,
                         struct dualvm_value *product,
                         size_t count,
                         struct dualvm_error **error);

// The function's results and its Jacobian, row by row: the gradient of each real in the results, in the order in which
// they stand there. One forward run, and one sweep for each row.
//
// `results` is as for `dualvm_call`. `matrix` has `len` places for the caller's copy, `rows * columns` of them, where
// columns are the reals in the arguments that are asked for. Both counts are written to `rows` and `columns`, also if
// `len` is another number; so who doesn't know them asks with a null `matrix` and a `len` of 0, which makes no sweep.
//
// Errors: as `dualvm_call`; `INVALID_ARGUMENT` if there are other than `len` entries, unless nothing was asked for.
dualvm_status dualvm_jacobian(struct dualvm_frame *frame,
                              const struct dualvm_value *args,
                              size_t arg_count,
                              struct dualvm_value *results,
                              size_t result_count,
                              double *matrix,
                              size_t len,
                              size_t *rows,
                              size_t *columns,
                              struct dualvm_error **error);

// Makes so many calls of the function at a time, on the engine's threads, with the frame's options. Limits are those
// of each call; `time_ns` is how long all of them may take, 0: as long as they do.
//
// There is a column for each leaf of the parameters. `results` takes a row for each item: all reals in the result, in
// the order of the leaves; integers are left out. `result_count` is how many reals there are for all items together,
// or 0 if they aren't wanted. `statuses` is null, or has a place for each item, for what became of it.
//
// An item that fails is alone with that: its row is filled with NaN, and the others are as if it weren't there. If all
// have succeeded, this gives `DUALVM_STATUS_OK`; else status and error are those of the first item that hasn't, and
// the message names it. What doesn't fit is said before anything runs, as far as it can be known; then statuses stay
// as they were, and places may be filled with NaN. What the frame's last call has left stays. Results are the same
// bits on any number of threads.
//
// Errors: as `dualvm_call`, of items; `INVALID_ARGUMENT` for columns or places that don't fit the function and the
// number of items, and for places that overlap with each other or with arguments.
dualvm_status dualvm_batch_call(struct dualvm_frame *frame,
                                size_t items,
                                const struct dualvm_column *args,
                                size_t arg_count,
                                double *results,
                                size_t result_count,
                                dualvm_status *statuses,
                                uint64_t time_ns,
                                struct dualvm_error **error);

// The values of a function that returns one real, and its gradients, for so many items at a time: `dualvm_batch_call`
// with `dualvm_value_and_grad`.
//
// `values` is null, or has a place for each item. `gradient` takes a row for each item, as
// `dualvm_value_and_grad_into` does: all derivatives that are asked for. `gradient_count` is how many reals there are
// for all items together, or 0 if they aren't wanted. In places of an item that fails stands NaN.
//
// Errors: as `dualvm_batch_call`, and `NOT_SCALAR`.
dualvm_status dualvm_batch_value_and_grad(struct dualvm_frame *frame,
                                          size_t items,
                                          const struct dualvm_column *args,
                                          size_t arg_count,
                                          double *values,
                                          double *gradient,
                                          size_t gradient_count,
                                          dualvm_status *statuses,
                                          uint64_t time_ns,
                                          struct dualvm_error **error);

// Calls a function with arguments in JSON, of any types: `{"value": …}`.
//
// `args`: a list of the arguments, or an object with the parameters' names; tuples, arrays and lists are lists,
// records are objects, a constructor is its name or an object from its name to what it takes. NaN and infinities are
// the strings "NaN", "Infinity" and "-Infinity". `len`: bytes of the text, or `DUALVM_NUL_TERMINATED`. `options`:
// limits of the call, and who may cancel it; null: the engine's limits, and nobody. `json`: the answer, to be freed.
// `stats`: what the call has used; may be null.
//
// Errors: `ARGUMENT` with the place of what isn't right, `TRAP`, `LIMIT`, `CANCELLED`, `RESULT`.
dualvm_status dualvm_json_call(const struct dualvm_function *function,
                               const char *args,
                               size_t len,
                               const struct dualvm_options *options,
                               struct dualvm_bytes **json,
                               struct dualvm_stats *stats,
                               struct dualvm_error **error);

// The function of the other parameters that there is once the parameter of this name has this argument, which is read
// here and no more in calls. It is a constant: no derivative is with respect to it; of the parameters that derivatives
// were with respect to, those that are left stay. A new handle, to be freed as well; frames take it if what is left is
// of numbers and arrays of numbers.
//
// `argument`: in JSON, as one of those of `dualvm_json_call`; `len`: its bytes, or `DUALVM_NUL_TERMINATED`.
//
// Errors: `NOT_FOUND` if the function has no parameter of this name, `ARGUMENT` with the place of what isn't right,
// `LIMIT` if it takes more memory or time than a call may in this engine.
dualvm_status dualvm_json_bind(const struct dualvm_function *function,
                               const char *parameter,
                               const char *argument,
                               size_t len,
                               struct dualvm_function **bound,
                               struct dualvm_error **error);

// The value of a function that returns one real, and its gradient, in JSON: `{"value": …, "gradient": […]}`. The
// gradient has an entry for each parameter, of the argument's shape, with null for what is discrete or not asked for.
// Else as `dualvm_json_call`.
//
// Errors: as `dualvm_json_call`, and `NOT_SCALAR`.
dualvm_status dualvm_json_value_and_grad(const struct dualvm_function *function,
                                         const char *args,
                                         size_t len,
                                         const struct dualvm_options *options,
                                         struct dualvm_bytes **json,
                                         struct dualvm_stats *stats,
                                         struct dualvm_error **error);

// A function's value, and the product of a cotangent of it and the Jacobian, in JSON: `{"value": …, "gradient": […]}`.
// The cotangent has the shape of the value, with null for what is discrete. Else as `dualvm_json_value_and_grad`.
//
// Errors: as `dualvm_json_call`; `ARGUMENT` also for the cotangent.
dualvm_status dualvm_json_vjp(const struct dualvm_function *function,
                              const char *args,
                              size_t len,
                              const char *cotangent,
                              size_t cotangent_len,
                              const struct dualvm_options *options,
                              struct dualvm_bytes **json,
                              struct dualvm_stats *stats,
                              struct dualvm_error **error);

// A function's value, and how it changes as the arguments move in the direction of tangents, in JSON:
// `{"value": …, "tangent": …}`. Tangents are a list, one for each parameter, of the argument's shape, with null for
// what is discrete or not asked for. Else as `dualvm_json_call`.
//
// Errors: as `dualvm_json_call`; `ARGUMENT` also for the tangents.
dualvm_status dualvm_json_jvp(const struct dualvm_function *function,
                              const char *args,
                              size_t len,
                              const char *tangents,
                              size_t tangents_len,
                              const struct dualvm_options *options,
                              struct dualvm_bytes **json,
                              struct dualvm_stats *stats,
                              struct dualvm_error **error);

// The value of a function that returns one real, its gradient, and the product of its Hessian and tangents, in JSON:
// `{"value": …, "gradient": […], "product": […]}`. Tangents are as for `dualvm_json_jvp`.
//
// Errors: as `dualvm_json_jvp`, and `NOT_SCALAR`.
dualvm_status dualvm_json_hvp(const struct dualvm_function *function,
                              const char *args,
                              size_t len,
                              const char *tangents,
                              size_t tangents_len,
                              const struct dualvm_options *options,
                              struct dualvm_bytes **json,
                              struct dualvm_stats *stats,
                              struct dualvm_error **error);

// A function's value and its Jacobian, in JSON: `{"value": …, "jacobian": [[…], …]}`, with a gradient for each real in
// the value, in the order in which they stand there. By rows or by columns, whichever are fewer. Else as
// `dualvm_json_call`.
dualvm_status dualvm_json_jacobian(const struct dualvm_function *function,
                                   const char *args,
                                   size_t len,
                                   const struct dualvm_options *options,
                                   struct dualvm_bytes **json,
                                   struct dualvm_stats *stats,
                                   struct dualvm_error **error);

// Makes a function of the host's: what it takes and gives, as the leaves of its parameters and of its result, each a
// `dualvm_leaf_kind`. A matrix or a tensor is two leaves, its shape and its elements; one function may serve tensors
// of any number of dimensions. `drop` may be null; it is called for `data` in any case, also if this fails.
dualvm_status dualvm_host_new(const uint32_t *params,
                              size_t params_len,
                              const uint32_t *results,
                              size_t results_len,
                              dualvm_host_function function,
                              void *data,
                              dualvm_host_drop drop,
                              struct dualvm_host **host,
                              struct dualvm_error **error);

// Frees a function of the host's. Null is fine. Engines that know it keep it.
void dualvm_host_free(struct dualvm_host *host);

// Gives a function its vjp, another such function, which may have derivatives of its own: it takes what the function
// takes, then a cotangent for each result that is of reals, and gives one for each parameter that is. That of a tensor
// is a tensor, its shape and its elements, and has to be of the same shape. It is linear in them. A function that has
// one of vjp and jvp has both: the other one is made of it, with a call for each real that comes out. The vjp is
// copied as it is now.
dualvm_status dualvm_host_set_vjp(struct dualvm_host *host, const struct dualvm_host *vjp, struct dualvm_error **error);

// Gives a function its jvp: it takes what the function takes, then a tangent for each parameter that is of reals, and
// gives one for each result that is; of a tensor, a tensor. All else is as for `dualvm_host_set_vjp`.
dualvm_status dualvm_host_set_jvp(struct dualvm_host *host, const struct dualvm_host *jvp, struct dualvm_error **error);

// Gives programs of engines with this configuration a function of the host's: what `import host "name" : type` means
// in a program. `len`: bytes of the name, or `DUALVM_NUL_TERMINATED`. It takes the place of what had the name before.
// The function is copied as it is now.
dualvm_status dualvm_config_define(struct dualvm_config *config,
                                   const char *name,
                                   size_t len,
                                   const struct dualvm_host *host,
                                   struct dualvm_error **error);

// Gives the next result of a call: of a tensor its shape, as integers, and then its elements, row by row. What it
// points to is copied. Errors are mistakes of the function: a result that is not of its kind, one too many, a tensor
// with another number of elements than its shape says, or a derivative of another shape than what it belongs to; or
// the limit of the run's memory. After one, return something else than 0.
dualvm_status dualvm_host_call_give(struct dualvm_host_call *call,
                                    const struct dualvm_value *value,
                                    struct dualvm_error **error);

// Whether the run may go on: for functions that take more than a few milliseconds. If not, return something else than
// 0, and the run ends.
dualvm_status dualvm_host_call_check(struct dualvm_host_call *call, struct dualvm_error **error);

// Says why a call gives no results: the text of the trap. `len`: its bytes, or `DUALVM_NUL_TERMINATED`. Return
// something else than 0 after that.
dualvm_status dualvm_host_call_fail(struct dualvm_host_call *call,
                                    const char *message,
                                    size_t len,
                                    struct dualvm_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DUALVM_H */

#ifdef __cplusplus
extern "C" {
#endif

// What flat calls take, made of numbers and arrays. Arrays are not copied.

static inline dualvm_value dualvm_null(void) {
    dualvm_value value = {DUALVM_VALUE_KIND_NULL, 0, {0}, 0};
    return value;
}

static inline dualvm_value dualvm_real(double x) {
    dualvm_value value = {DUALVM_VALUE_KIND_REAL, 0, {0}, 1};
    value.of.real = x;
    return value;
}

static inline dualvm_value dualvm_int(int64_t n) {
    dualvm_value value = {DUALVM_VALUE_KIND_INT, 0, {0}, 1};
    value.of.integer = n;
    return value;
}

static inline dualvm_value dualvm_reals(const double *xs, size_t len) {
    dualvm_value value = {DUALVM_VALUE_KIND_REALS, 0, {0}, 0};
    value.of.reals = xs;
    value.len = len;
    return value;
}

static inline dualvm_value dualvm_ints(const int64_t *ns, size_t len) {
    dualvm_value value = {DUALVM_VALUE_KIND_INTS, 0, {0}, 0};
    value.of.integers = ns;
    value.len = len;
    return value;
}

// What batches take: the same for all items, or `width` numbers for each item, one item after the other.

static inline dualvm_column dualvm_same(dualvm_value value) {
    dualvm_column column;
    column.first = value;
    column.stride = 0;
    return column;
}

static inline dualvm_column dualvm_each_reals(const double *xs, size_t width) {
    dualvm_column column = dualvm_same(dualvm_reals(xs, width));
    column.stride = width;
    return column;
}

static inline dualvm_column dualvm_each_ints(const int64_t *ns, size_t width) {
    dualvm_column column = dualvm_same(dualvm_ints(ns, width));
    column.stride = width;
    return column;
}

#ifdef __cplusplus
}
#endif
