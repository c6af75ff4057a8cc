// Calls that no program should make: each has to give an error, with a message, and nothing may crash. Built and run by
// tests/c_programs.rs, also with the address sanitizer and under valgrind.

#include "dualvm.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int calls, wrong;

// One hostile call, whose last argument is `&error`. It must end with this status, a message and no crash.
#define REFUSED(expected, call)                                                                                        \
    do {                                                                                                               \
        dualvm_error *error = NULL;                                                                                    \
        dualvm_status status = (call);                                                                                 \
        calls++;                                                                                                       \
        if (status != (expected) || error == NULL || dualvm_error_status(error) != status ||                           \
            dualvm_error_message(error)[0] == 0 || dualvm_error_summary(error)[0] == 0) {                              \
            wrong++;                                                                                                   \
            printf("line %d: %s, expected %s: %s\n", __LINE__, dualvm_status_name(status),                             \
                   dualvm_status_name(expected), dualvm_error_message(error));                                         \
        }                                                                                                              \
        dualvm_error_free(error);                                                                                      \
    } while (0)

// What must hold after or between hostile calls.
#define HOLDS(condition)                                                                                               \
    do {                                                                                                               \
        calls++;                                                                                                       \
        if (!(condition)) {                                                                                            \
            wrong++;                                                                                                   \
            printf("line %d: %s\n", __LINE__, #condition);                                                             \
        }                                                                                                              \
    } while (0)

#define FINE(call)                                                                                                     \
    do {                                                                                                               \
        dualvm_error *error = NULL;                                                                                    \
        dualvm_status status = (call);                                                                                 \
        if (status != DUALVM_STATUS_OK) {                                                                              \
            printf("line %d: %s\n", __LINE__, dualvm_error_message(error));                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define ARGUMENT DUALVM_STATUS_INVALID_ARGUMENT
#define HANDLE DUALVM_STATUS_INVALID_HANDLE

static const char *SOURCE = "type Tree = Leaf Real | Node Tree Tree\n"
                            "def mult (x : Real) (y : Real) : Real = x * y\n"
                            "def dot (xs : Array Real) (ys : Array Real) : Real =\n"
                            "  loop sum = 0.0 for i < length xs do sum + xs[i] * ys[i]\n"
                            "def scaled (xs : Array Real) (n : Int) (on : Bool) (k : Real) =\n"
                            "  if on then ([| k * x for x in xs |], n) else (xs, n)\n"
                            "def bools (bs : Array Bool) : Int = length bs\n"
                            "def norm (m : Matrix Real) : Real = sum [| x * x for x in elements m |]\n"
                            "def pairs (ps : Array (Real, Real)) : Real = sum [| x * y for (x, y) in ps |]\n"
                            "def total (tree : Tree) : Real =\n"
                            "  match tree with | Leaf x -> x | Node a b -> total a + total b\n"
                            "def forever (x : Real) : Real = loop y = x while y < 1e300 do (y + x) / 2\n"
                            "def quotient (a : Int) (b : Int) : Int = a / b\n";

static dualvm_engine *engine;
static dualvm_module *module;

static dualvm_function *function(const char *name) {
    dualvm_function *found = NULL;
    FINE(dualvm_module_function(module, name, &found, &error));
    return found;
}

static dualvm_frame *frame(const char *name) {
    dualvm_function *found = function(name);
    dualvm_frame *made = NULL;
    FINE(dualvm_frame_new(found, NULL, &made, &error));
    dualvm_function_free(found);
    return made;
}

// Pointers that aren't handles: null, memory of other kinds, and bits.
static void *foreign(int n) {
    static uint64_t memory[64];
    static const uintptr_t bits[] = {0, 1, 7, 0x35, 0x11, 0x100, 0xdeadbeef, ~(uintptr_t)0, (uintptr_t)1 << 63,
                                     ((uintptr_t)1 << 32) | 0xffffff35, ((uintptr_t)1 << 32) | 0x3500};
    const int count = sizeof bits / sizeof *bits;
    if (n < count) {
        return (void *)bits[n];
    }
    return n == count ? (void *)memory : n == count + 1 ? (void *)((char *)memory + 3) : (void *)engine;
}
enum { FOREIGN = 14 };

// Every function that takes a handle, with what is none.
static void handles(void) {
    for (int n = 0; n < FOREIGN; n++) {
        void *none = foreign(n);
        void *out = NULL;
        uint64_t number = 0;
        size_t size = 0;
        double real = 0;
        const double *reals = NULL;
        dualvm_value value = dualvm_real(1);
        dualvm_type info;
        dualvm_type_child child;
        dualvm_leaf leaf;
        dualvm_stats stats;
        dualvm_place place;
        int is_engine = n == FOREIGN - 1;

        REFUSED(HANDLE, dualvm_error_place(none, 0, &place, &error));
        REFUSED(HANDLE, dualvm_options_set_untrusted(none, &error));
        REFUSED(HANDLE, dualvm_options_set_limit(none, DUALVM_LIMIT_FUEL, 1, &error));
        REFUSED(HANDLE, dualvm_options_limit(none, DUALVM_LIMIT_FUEL, &number, &error));
        REFUSED(HANDLE, dualvm_options_set_cancel(none, NULL, &error));
        REFUSED(HANDLE, dualvm_options_set_timed(none, 1, &error));
        REFUSED(HANDLE, dualvm_options_set_copy_arguments(none, 1, &error));
        REFUSED(HANDLE, dualvm_options_add_file(none, "a", "", 0, &error));
        REFUSED(HANDLE, dualvm_options_add_module(none, "a", module, &error));
        REFUSED(HANDLE, dualvm_config_define_module(none, "a", 1, module, &error));
        REFUSED(HANDLE, dualvm_config_set_threads(none, 1, &error));
        REFUSED(HANDLE, dualvm_config_set_native(none, DUALVM_NATIVE_AUTO, &error));
        REFUSED(HANDLE, dualvm_config_set_stack_bytes(none, 0, &error));
        REFUSED(HANDLE, dualvm_config_set_trap_nan(none, 0, &error));
        REFUSED(HANDLE, dualvm_config_set_limits(none, NULL, &error));
        if (!is_engine) {
            REFUSED(HANDLE, dualvm_module_from_source(none, "f", "", 0, NULL, (dualvm_module **)&out, &error));
        }
        REFUSED(HANDLE, dualvm_module_to_bytes(none, (dualvm_bytes **)&out, &error));
        REFUSED(HANDLE, dualvm_module_function(none, "mult", (dualvm_function **)&out, &error));
        REFUSED(HANDLE, dualvm_module_function_at(none, 0, (dualvm_function **)&out, &error));
        REFUSED(HANDLE, dualvm_function_wrt(none, NULL, 0, (dualvm_function **)&out, &error));
        REFUSED(HANDLE, dualvm_function_type(none, 0, &info, &error));
        REFUSED(HANDLE, dualvm_function_type_child(none, 0, 0, &child, &error));
        REFUSED(HANDLE, dualvm_function_leaf_count(none, 0, &size, &error));
        REFUSED(HANDLE, dualvm_function_leaf(none, 0, 0, &leaf, &error));
        REFUSED(HANDLE, dualvm_frame_new(none, NULL, (dualvm_frame **)&out, &error));
        REFUSED(HANDLE, dualvm_frame_set_options(none, NULL, &error));
        REFUSED(HANDLE, dualvm_frame_clear(none, &error));
        REFUSED(HANDLE, dualvm_frame_stats(none, &stats, &error));
        REFUSED(HANDLE, dualvm_frame_gradient(none, &reals, &size, &error));
        REFUSED(HANDLE, dualvm_call(none, &value, 1, &value, 1, &error));
        REFUSED(HANDLE, dualvm_value_and_grad(none, &value, 1, &real, &value, 1, &error));
        REFUSED(HANDLE, dualvm_value_and_grad_into(none, &value, 1, &real, &real, 1, &error));
        REFUSED(HANDLE, dualvm_vjp(none, &value, 1, &value, 1, NULL, 0, NULL, 0, &error));
        REFUSED(HANDLE, dualvm_record(none, &value, 1, NULL, 0, &error));
        REFUSED(HANDLE, dualvm_pullback(none, &value, 1, NULL, 0, &error));
        REFUSED(HANDLE, dualvm_jvp(none, &value, 1, &value, 1, NULL, 0, NULL, 0, &error));
        REFUSED(HANDLE, dualvm_hvp(none, &value, 1, &value, 1, &real, NULL, NULL, 0, &error));
        REFUSED(HANDLE, dualvm_jacobian(none, &value, 1, NULL, 0, NULL, 0, NULL, NULL, &error));
        REFUSED(HANDLE, dualvm_json_call(none, "[]", 2, NULL, (dualvm_bytes **)&out, NULL, &error));
        REFUSED(HANDLE, dualvm_json_bind(none, "x", "1", 1, (dualvm_function **)&out, &error));
        REFUSED(HANDLE, dualvm_json_value_and_grad(none, "[]", 2, NULL, (dualvm_bytes **)&out, NULL, &error));
        REFUSED(HANDLE, dualvm_json_vjp(none, "[]", 2, "0", 1, NULL, (dualvm_bytes **)&out, NULL, &error));
        REFUSED(HANDLE, dualvm_json_jvp(none, "[]", 2, "[]", 2, NULL, (dualvm_bytes **)&out, NULL, &error));
        REFUSED(HANDLE, dualvm_json_hvp(none, "[]", 2, "[]", 2, NULL, (dualvm_bytes **)&out, NULL, &error));
        REFUSED(HANDLE, dualvm_json_jacobian(none, "[]", 2, NULL, (dualvm_bytes **)&out, NULL, &error));
        HOLDS(dualvm_cancel_request(none) == HANDLE);
        HOLDS(!dualvm_cancel_is_requested(none));
        // Getters have nothing to say.
        HOLDS(dualvm_error_message(none)[0] == 0 && dualvm_error_summary(none)[0] == 0);
        HOLDS(dualvm_error_place_count(none) == 0 && dualvm_error_limit(none) == DUALVM_LIMIT_NONE);
        HOLDS(dualvm_bytes_data(none)[0] == 0 && dualvm_bytes_len(none) == 0);
        HOLDS(dualvm_module_function_count(none) == 0 && dualvm_module_function_name(none, 0)[0] == 0);
        HOLDS(dualvm_module_signature(none, 0)[0] == 0 && dualvm_module_warnings(none)[0] == 0);
        HOLDS(dualvm_function_name(none)[0] == 0 && dualvm_function_signature(none)[0] == 0);
        HOLDS(dualvm_function_param_count(none) == 0 && dualvm_function_param_name(none, 0)[0] == 0);
        HOLDS(!dualvm_function_is_wrt(none, 0));
        HOLDS(is_engine || (dualvm_engine_threads(none) == 0 && dualvm_engine_kept_bytes(none) == 0));
        // And nothing to free.
        size_t before = dualvm_handle_count();
        dualvm_error_free(none);
        dualvm_bytes_free(none);
        dualvm_cancel_free(none);
        dualvm_options_free(none);
        dualvm_config_free(none);
        dualvm_module_free(none);
        dualvm_function_free(none);
        dualvm_frame_free(none);
        HOLDS(dualvm_handle_count() == before);
    }
    // Of these, null is the default and none.
    for (int n = 1; n < FOREIGN; n++) {
        void *none = foreign(n), *out = NULL;
        dualvm_function *mult = function("mult");
        dualvm_options *options;
        FINE(dualvm_options_new(&options, &error));
        if (n < FOREIGN - 1) {
            REFUSED(HANDLE, dualvm_engine_new(none, (dualvm_engine **)&out, &error));
        }
        REFUSED(HANDLE, dualvm_module_from_source(engine, "f", "", 0, none, (dualvm_module **)&out, &error));
        REFUSED(HANDLE, dualvm_frame_new(mult, none, (dualvm_frame **)&out, &error));
        REFUSED(HANDLE, dualvm_options_set_cancel(options, none, &error));
        REFUSED(HANDLE, dualvm_json_call(mult, "[1,2]", 5, none, (dualvm_bytes **)&out, NULL, &error));
        HOLDS(out == NULL);
        dualvm_options_free(options);
        dualvm_function_free(mult);
    }
}

// Places for results that can't be written to.
static void places(void) {
    dualvm_function *mult = function("mult");
    dualvm_frame *call = frame("mult");
    dualvm_value args[2] = {dualvm_real(3), dualvm_real(4)}, out[4];
    char memory[64] __attribute__((aligned(16)));
    void *misaligned = memory + 1;
    REFUSED(ARGUMENT, dualvm_engine_new(NULL, NULL, &error));
    REFUSED(ARGUMENT, dualvm_config_new(NULL, &error));
    REFUSED(ARGUMENT, dualvm_options_new(NULL, &error));
    REFUSED(ARGUMENT, dualvm_cancel_new(NULL, &error));
    REFUSED(ARGUMENT, dualvm_module_function(module, "mult", NULL, &error));
    REFUSED(ARGUMENT, dualvm_module_from_source(engine, "f", "", 0, NULL, NULL, &error));
    REFUSED(ARGUMENT, dualvm_frame_new(mult, NULL, NULL, &error));
    REFUSED(ARGUMENT, dualvm_json_call(mult, "[1,2]", 5, NULL, NULL, NULL, &error));
    REFUSED(ARGUMENT, dualvm_function_type(mult, 0, NULL, &error));
    REFUSED(ARGUMENT, dualvm_function_type_child(mult, 0, 0, NULL, &error));
    REFUSED(ARGUMENT, dualvm_function_leaf(mult, 0, 0, NULL, &error));
    REFUSED(ARGUMENT, dualvm_function_leaf_count(mult, 0, NULL, &error));
    REFUSED(ARGUMENT, dualvm_frame_stats(call, NULL, &error));
    REFUSED(ARGUMENT, dualvm_frame_gradient(call, NULL, NULL, &error));
    REFUSED(ARGUMENT, dualvm_engine_new(NULL, misaligned, &error));
    REFUSED(ARGUMENT, dualvm_module_function(module, "mult", misaligned, &error));
    REFUSED(ARGUMENT, dualvm_frame_stats(call, misaligned, &error));
    REFUSED(ARGUMENT, dualvm_call(call, misaligned, 2, out, 1, &error));
    REFUSED(ARGUMENT, dualvm_call(call, args, 2, misaligned, 1, &error));
    REFUSED(ARGUMENT, dualvm_call(call, NULL, 2, out, 1, &error));
    REFUSED(ARGUMENT, dualvm_call(call, args, 2, NULL, 1, &error));
    REFUSED(ARGUMENT, dualvm_value_and_grad(call, args, 2, misaligned, out, 2, &error));
    REFUSED(ARGUMENT, dualvm_value_and_grad(call, args, 2, NULL, misaligned, 2, &error));
    REFUSED(ARGUMENT, dualvm_value_and_grad_into(call, args, 2, NULL, misaligned, 2, &error));
    REFUSED(ARGUMENT, dualvm_value_and_grad_into(call, args, 2, NULL, NULL, 2, &error));
    // Without a place for the error, there is only the status.
    HOLDS(dualvm_call(call, NULL, 2, out, 1, NULL) == ARGUMENT);
    HOLDS(dualvm_call(call, args, 2, out, 1, misaligned) == ARGUMENT);
    HOLDS(dualvm_engine_new(NULL, NULL, misaligned) == ARGUMENT);
    dualvm_frame_free(call);
    dualvm_function_free(mult);
}

// Counts and lengths that are wrong, or more than memory has.
static void lengths(void) {
    static const size_t sizes[] = {0, 1, 3, 1000, SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2, SIZE_MAX / 8,
            SIZE_MAX / 24 + 1, (size_t)1 << 60};
    dualvm_frame *mult = frame("mult"), *dot = frame("dot"), *norm = frame("norm"), *pairs = frame("pairs");
    dualvm_value args[3] = {dualvm_real(3), dualvm_real(4), dualvm_real(5)}, out[3];
    double xs[4] = {1, 2, 3, 4}, value;
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        size_t size = sizes[n];
        REFUSED(ARGUMENT, dualvm_call(mult, args, size, out, 1, &error));
        if (size != 1) {
            REFUSED(ARGUMENT, dualvm_call(mult, args, 2, out, size == 0 ? 2 : size, &error));
        }
        REFUSED(ARGUMENT, dualvm_value_and_grad(mult, args, 2, &value, out, size == 0 ? 1 : size, &error));
        REFUSED(ARGUMENT, dualvm_value_and_grad_into(mult, args, 2, &value, xs, size, &error));
        REFUSED(ARGUMENT, dualvm_vjp(mult, args, 2, args, size == 1 ? 2 : size, NULL, 0, NULL, 0, &error));
        REFUSED(ARGUMENT, dualvm_jvp(mult, args, 2, args, size, NULL, 0, NULL, 0, &error));
        REFUSED(ARGUMENT, dualvm_hvp(mult, args, 2, args, size, NULL, NULL, NULL, 0, &error));
        REFUSED(ARGUMENT, dualvm_jacobian(mult, args, 2, NULL, 0, xs, size, NULL, NULL, &error));
        if (size > 1000) {
            dualvm_value arrays[2] = {dualvm_reals(xs, size), dualvm_reals(xs, 4)};
            REFUSED(ARGUMENT, dualvm_call(dot, arrays, 2, out, 1, &error));
            REFUSED(ARGUMENT, dualvm_value_and_grad(dot, arrays, 2, &value, out, 2, &error));
            dualvm_value integers[2] = {dualvm_ints((int64_t *)xs, size), dualvm_reals(xs, 4)};
            REFUSED(ARGUMENT, dualvm_call(dot, integers, 2, out, 1, &error));
            dualvm_function *found = NULL;
            dualvm_bytes *json = NULL;
            dualvm_module *compiled = NULL;
            dualvm_function *given = function("dot");
            REFUSED(ARGUMENT, dualvm_function_wrt(given, (const char *const *)xs, size, &found, &error));
            if (size != DUALVM_NUL_TERMINATED) {
                REFUSED(ARGUMENT, dualvm_json_bind(given, "xs", "[]", size, &found, &error));
                REFUSED(ARGUMENT, dualvm_json_call(given, "[]", size, NULL, &json, NULL, &error));
                REFUSED(ARGUMENT, dualvm_module_from_source(engine, "f", "", size, NULL, &compiled, &error));
            }
            REFUSED(ARGUMENT, dualvm_module_from_bytes(engine, (const uint8_t *)xs, size, &compiled, &error));
            dualvm_function_free(given);
        }
    }
    // Arrays that are null or misaligned.
    dualvm_value broken[2] = {dualvm_reals(NULL, 3), dualvm_reals(xs, 3)};
    REFUSED(ARGUMENT, dualvm_call(dot, broken, 2, out, 1, &error));
    broken[0] = dualvm_reals((double *)((char *)xs + 1), 3);
    REFUSED(ARGUMENT, dualvm_call(dot, broken, 2, out, 1, &error));
    broken[0] = dualvm_reals((double *)((char *)xs + 4), 3);
    REFUSED(ARGUMENT, dualvm_call(dot, broken, 2, out, 1, &error));
    // Without elements it doesn't matter where they are.
    broken[0] = dualvm_reals((double *)1, 0);
    broken[1] = dualvm_reals(NULL, 0);
    FINE(dualvm_call(dot, broken, 2, out, 1, &error));
    HOLDS(out[0].of.real == 0);
    // Shapes that aren't those of the elements, or of anything.
    static const int64_t shapes[][2] = {{2, 3}, {-1, -4}, {-2, -2}, {INT64_MAX, 2}, {INT64_MAX, INT64_MAX},
            {INT64_MIN, 1}, {1, 0}};
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        dualvm_value matrix[2] = {dualvm_ints(shapes[n], 2), dualvm_reals(xs, 4)};
        REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_call(norm, matrix, 2, out, 1, &error));
        REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_value_and_grad(norm, matrix, 2, &value, out, 2, &error));
    }
    dualvm_value short_shape[2] = {dualvm_ints(shapes[0], 1), dualvm_reals(xs, 4)};
    REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_call(norm, short_shape, 2, out, 1, &error));
    dualvm_value halves = dualvm_reals(xs, 3);
    REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_call(pairs, &halves, 1, out, 1, &error));
    dualvm_frame_free(mult);
    dualvm_frame_free(dot);
    dualvm_frame_free(norm);
    dualvm_frame_free(pairs);
}

// Values of other kinds, and kinds that there are none of.
static void kinds(void) {
    dualvm_frame *scaled = frame("scaled"), *bools = frame("bools");
    double xs[2] = {1, 2};
    int64_t ns[2] = {0, 2};
    dualvm_value good[4] = {dualvm_reals(xs, 2), dualvm_int(1), dualvm_int(1), dualvm_real(2)}, out[4];
    dualvm_value others[] = {dualvm_null(), dualvm_real(1.5), dualvm_int(7), dualvm_reals(xs, 2), dualvm_ints(ns, 2)};
    for (int n = 0; n < 4; n++) {
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            dualvm_value args[4];
            memcpy(args, good, sizeof args);
            args[n] = others[k];
            if (others[k].kind == good[n].kind && n != 2) {
                continue;
            }
            REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_call(scaled, args, 4, out, 2, &error));
            REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_record(scaled, args, 4, out, 2, &error));
        }
        static const uint32_t unknown[] = {5, 6, 255, 1u << 16, UINT32_MAX};
        for (size_t k = 0; k < sizeof unknown / sizeof *unknown; k++) {
            dualvm_value args[4];
            memcpy(args, good, sizeof args);
            args[n].kind = unknown[k];
            REFUSED(ARGUMENT, dualvm_call(scaled, args, 4, out, 2, &error));
        }
    }
    dualvm_value twos = dualvm_ints(ns, 2);
    REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_call(bools, &twos, 1, out, 1, &error));
    // Cotangents and tangents that don't fit.
    dualvm_value cotangents[2] = {dualvm_reals(xs, 1), dualvm_null()};
    REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_vjp(scaled, good, 4, cotangents, 2, NULL, 0, NULL, 0, &error));
    cotangents[0] = dualvm_reals(xs, 2);
    cotangents[1] = dualvm_real(1);
    REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_vjp(scaled, good, 4, cotangents, 2, NULL, 0, NULL, 0, &error));
    dualvm_value tangents[4] = {dualvm_reals(xs, 1), dualvm_null(), dualvm_null(), dualvm_real(1)};
    REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_jvp(scaled, good, 4, tangents, 4, NULL, 0, NULL, 0, &error));
    tangents[0] = dualvm_null();
    REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_jvp(scaled, good, 4, tangents, 4, NULL, 0, NULL, 0, &error));
    REFUSED(DUALVM_STATUS_NOT_SCALAR, dualvm_hvp(scaled, good, 4, tangents, 4, NULL, NULL, NULL, 0, &error));
    REFUSED(DUALVM_STATUS_NOT_SCALAR, dualvm_value_and_grad(scaled, good, 4, NULL, NULL, 0, &error));
    // What the last call hasn't left.
    const double *reals;
    size_t len;
    dualvm_stats stats;
    REFUSED(ARGUMENT, dualvm_pullback(scaled, cotangents, 2, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_frame_gradient(scaled, &reals, &len, &error));
    REFUSED(ARGUMENT, dualvm_frame_stats(scaled, &stats, &error));
    FINE(dualvm_call(scaled, good, 4, out, 2, &error));
    REFUSED(ARGUMENT, dualvm_pullback(scaled, cotangents, 2, NULL, 0, &error));
    FINE(dualvm_jvp(scaled, good, 4, (dualvm_value[]){dualvm_reals(xs, 2), dualvm_null(), dualvm_null(),
            dualvm_real(1)}, 4, NULL, 0, out, 2, &error));
    HOLDS(out[0].len == 2 && out[0].of.reals[1] == 2 * 2 + 2 * 1 && out[1].kind == DUALVM_VALUE_KIND_NULL);
    REFUSED(ARGUMENT, dualvm_pullback(scaled, cotangents, 2, NULL, 0, &error));
    dualvm_frame_free(scaled);
    dualvm_frame_free(bools);
}

// Numbers that aren't finite are numbers.
static void numbers(void) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, -0.0, 5e-324, 1.7976931348623157e308};
    dualvm_frame *mult = frame("mult");
    dualvm_function *json = function("mult");
    for (int n = 0; n < 6; n++) {
        for (int k = 0; k < 6; k++) {
            dualvm_value args[2] = {dualvm_real(odd[n]), dualvm_real(odd[k])}, result;
            double value, gradient[2], product = odd[n] * odd[k];
            FINE(dualvm_call(mult, args, 2, &result, 1, &error));
            HOLDS(isnan(product) ? isnan(result.of.real) : result.of.real == product);
            FINE(dualvm_value_and_grad_into(mult, args, 2, &value, gradient, 2, &error));
            HOLDS(isnan(odd[k]) ? isnan(gradient[0]) : gradient[0] == odd[k]);
        }
    }
    dualvm_bytes *answer;
    FINE(dualvm_json_call(json, "[\"NaN\", \"-Infinity\"]", DUALVM_NUL_TERMINATED, NULL, &answer, NULL, &error));
    HOLDS(strcmp(dualvm_bytes_data(answer), "{\"value\":\"NaN\"}") == 0);
    dualvm_bytes_free(answer);
    dualvm_function_free(json);
    dualvm_frame_free(mult);
}

// Texts that aren't UTF-8, JSON or programs, and numbers that aren't what they should be.
static void texts(void) {
    static const char *broken[] = {"\xff", "a\xc3", "\xed\xa0\x80", "def f (x : Real) = x -- \xf8\x88\x80\x80\x80",
            "\x80\x80"};
    dualvm_module *compiled;
    dualvm_function *found, *mult = function("mult"), *total = function("total");
    dualvm_bytes *json;
    dualvm_options *options;
    dualvm_config *config;
    FINE(dualvm_options_new(&options, &error));
    FINE(dualvm_config_new(&config, &error));
    for (int n = 0; n < 5; n++) {
        const char *names[1] = {broken[n]};
        REFUSED(ARGUMENT, dualvm_module_from_source(engine, "f", broken[n], DUALVM_NUL_TERMINATED, NULL, &compiled,
                &error));
        REFUSED(ARGUMENT, dualvm_module_from_source(engine, broken[n], "", 0, NULL, &compiled, &error));
        REFUSED(ARGUMENT, dualvm_module_function(module, broken[n], &found, &error));
        REFUSED(ARGUMENT, dualvm_function_wrt(mult, names, 1, &found, &error));
        REFUSED(ARGUMENT, dualvm_options_add_file(options, broken[n], "", 0, &error));
        REFUSED(ARGUMENT, dualvm_options_add_module(options, broken[n], module, &error));
        REFUSED(ARGUMENT, dualvm_options_add_file(options, "a", broken[n], DUALVM_NUL_TERMINATED, &error));
        REFUSED(ARGUMENT, dualvm_json_call(mult, broken[n], DUALVM_NUL_TERMINATED, NULL, &json, NULL, &error));
        REFUSED(ARGUMENT, dualvm_json_vjp(mult, "[1,2]", 5, broken[n], DUALVM_NUL_TERMINATED, NULL, &json, NULL,
                &error));
        REFUSED(DUALVM_STATUS_MODULE, dualvm_module_from_bytes(engine, (const uint8_t *)broken[n], strlen(broken[n]),
                &compiled, &error));
    }
    static const char *no_arguments[] = {"", "[", "[1", "[1,2", "[1]", "[1,2,3]", "[1,true]", "{}", "{\"x\":1}",
            "{\"x\":1,\"y\":2,\"z\":3}",
                                         "[1,2]x", "null", "[1e999999,\"x\"]", "[[[[[[", "{\"x\":1,\"x\":2}",
                                                 "[1,{\"a\":1}]", "\"\\ud800\""};
    for (size_t n = 0; n < sizeof no_arguments / sizeof *no_arguments; n++) {
        REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_json_call(mult, no_arguments[n], DUALVM_NUL_TERMINATED, NULL, &json,
                NULL, &error));
        REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_json_jvp(mult, "[1,2]", 5, no_arguments[n], DUALVM_NUL_TERMINATED,
                NULL, &json, NULL, &error));
        REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_json_hvp(mult, "[1,2]", 5, no_arguments[n], DUALVM_NUL_TERMINATED,
                NULL, &json, NULL, &error));
    }
    // Deeper than values nest, and much deeper.
    for (size_t depth = 1000; depth <= 1000000; depth *= 1000) {
        char *deep = malloc(8 * depth + 1);
        for (size_t n = 0; n < depth; n++) {
            memcpy(deep + 8 * n, "{\"Node\":", 8);
        }
        REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_json_call(total, deep, 8 * depth, NULL, &json, NULL, &error));
        memset(deep, '[', 8 * depth);
        REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_json_call(total, deep, 8 * depth, NULL, &json, NULL, &error));
        memset(deep, '(', 8 * depth);
        REFUSED(DUALVM_STATUS_SOURCE, dualvm_module_from_source(engine, "deep", deep, 8 * depth, NULL, &compiled,
                &error));
        free(deep);
    }
    REFUSED(DUALVM_STATUS_NOT_FOUND, dualvm_module_function(module, "", &found, &error));
    REFUSED(DUALVM_STATUS_NOT_FOUND, dualvm_module_function(module, "mul", &found, &error));
    REFUSED(DUALVM_STATUS_NOT_FOUND, dualvm_module_function_at(module, SIZE_MAX, &found, &error));
    REFUSED(DUALVM_STATUS_NOT_FOUND, dualvm_function_wrt(mult, (const char *[]){"z"}, 1, &found, &error));
    REFUSED(ARGUMENT, dualvm_function_wrt(mult, (const char *[]){NULL}, 1, &found, &error));
    REFUSED(ARGUMENT, dualvm_function_wrt(mult, NULL, 1, &found, &error));
    REFUSED(ARGUMENT, dualvm_module_function(module, NULL, &found, &error));
    REFUSED(ARGUMENT, dualvm_module_from_source(engine, NULL, "", 0, NULL, &compiled, &error));
    REFUSED(ARGUMENT, dualvm_module_from_source(engine, "f", NULL, 1, NULL, &compiled, &error));
    REFUSED(ARGUMENT, dualvm_module_from_source(engine, "f", NULL, DUALVM_NUL_TERMINATED, NULL, &compiled, &error));
    REFUSED(ARGUMENT, dualvm_module_from_bytes(engine, NULL, 10, &compiled, &error));
    REFUSED(DUALVM_STATUS_MODULE, dualvm_module_from_bytes(engine, NULL, 0, &compiled, &error));
    REFUSED(DUALVM_STATUS_NOT_FLAT, dualvm_frame_new(total, NULL, (dualvm_frame **)&found, &error));
    REFUSED(DUALVM_STATUS_NOT_FLAT, dualvm_function_leaf_count(total, 0, (size_t *)&found, &error));
    static const uint32_t beyond[] = {15, 100, 1000, UINT32_MAX};
    uint64_t value;
    dualvm_leaf leaf;
    dualvm_type type;
    dualvm_type_child child;
    REFUSED(ARGUMENT, dualvm_options_set_limit(options, DUALVM_LIMIT_NONE, 1, &error));
    for (int n = 0; n < 4; n++) {
        REFUSED(ARGUMENT, dualvm_options_set_limit(options, beyond[n], 1, &error));
        REFUSED(ARGUMENT, dualvm_options_limit(options, beyond[n], &value, &error));
        REFUSED(ARGUMENT, dualvm_config_set_native(config, beyond[n], &error));
        REFUSED(ARGUMENT, dualvm_function_leaf(mult, beyond[n], 0, &leaf, &error));
        REFUSED(ARGUMENT, dualvm_function_leaf(mult, DUALVM_SIDE_PARAMS, beyond[n], &leaf, &error));
        REFUSED(ARGUMENT, dualvm_function_type(mult, beyond[n], &type, &error));
        REFUSED(ARGUMENT, dualvm_function_type_child(mult, 0, beyond[n], &child, &error));
        REFUSED(ARGUMENT, dualvm_function_type_child(mult, beyond[n], 0, &child, &error));
    }
    REFUSED(ARGUMENT, dualvm_config_set_threads(config, SIZE_MAX, &error));
    HOLDS(dualvm_status_name(-1) != NULL && dualvm_status_name(INT32_MAX) != NULL);
    HOLDS(dualvm_module_function_name(module, SIZE_MAX)[0] == 0 && dualvm_function_param_name(mult, 2)[0] == 0);
    dualvm_config_free(config);
    dualvm_options_free(options);
    dualvm_function_free(total);
    dualvm_function_free(mult);
}

// Handles after they were freed, also when their places are used again.
static void freed(void) {
    dualvm_function *mult = function("mult");
    dualvm_frame *call = frame("mult");
    dualvm_options *options;
    dualvm_cancel *cancel;
    dualvm_bytes *json;
    dualvm_module *compiled;
    FINE(dualvm_options_new(&options, &error));
    FINE(dualvm_cancel_new(&cancel, &error));
    FINE(dualvm_json_call(mult, "[3,4]", 5, NULL, &json, NULL, &error));
    FINE(dualvm_module_from_source(engine, "f", "def f (x : Real) = x", DUALVM_NUL_TERMINATED, NULL, &compiled,
            &error));
    dualvm_value args[2] = {dualvm_real(3), dualvm_real(4)}, out;
    for (int round = 0; round < 3; round++) {
        dualvm_function_free(mult);
        dualvm_frame_free(call);
        dualvm_options_free(options);
        dualvm_cancel_free(cancel);
        dualvm_bytes_free(json);
        dualvm_module_free(compiled);
        size_t before = dualvm_handle_count();
        dualvm_frame *others[200];
        for (int n = 0; n < 200; n++) {
            others[n] = frame("mult");
        }
        dualvm_frame *made;
        REFUSED(HANDLE, dualvm_call(call, args, 2, &out, 1, &error));
        REFUSED(HANDLE, dualvm_frame_set_options(others[0], options, &error));
        REFUSED(HANDLE, dualvm_frame_new(mult, NULL, &made, &error));
        REFUSED(HANDLE, dualvm_options_set_untrusted(options, &error));
        REFUSED(HANDLE, dualvm_module_to_bytes(compiled, &json, &error));
        HOLDS(dualvm_cancel_request(cancel) == HANDLE);
        HOLDS(dualvm_bytes_len(json) == 0);
        for (int n = 0; n < 200; n++) {
            FINE(dualvm_call(others[n], args, 2, &out, 1, &error));
            dualvm_frame_free(others[n]);
        }
        HOLDS(dualvm_handle_count() == before);
    }
    // An error after it was freed.
    dualvm_error *gone = NULL;
    HOLDS(dualvm_call(NULL, NULL, 0, NULL, 0, &gone) == HANDLE);
    dualvm_error_free(gone);
    dualvm_error_free(gone);
    HOLDS(dualvm_error_status(gone) == HANDLE && dualvm_error_message(gone)[0] == 0);
    // A frame outlives all that it was made of.
    dualvm_engine *own;
    dualvm_module *of_own;
    dualvm_function *f;
    FINE(dualvm_engine_new(NULL, &own, &error));
    FINE(dualvm_module_from_source(own, "f", "def f (x : Real) = x * x", DUALVM_NUL_TERMINATED, NULL, &of_own, &error));
    FINE(dualvm_module_function(of_own, "f", &f, &error));
    FINE(dualvm_frame_new(f, NULL, &call, &error));
    dualvm_function_free(f);
    dualvm_module_free(of_own);
    dualvm_engine_free(own);
    FINE(dualvm_call(call, args, 1, &out, 1, &error));
    HOLDS(out.of.real == 9);
    REFUSED(HANDLE, dualvm_module_from_source(own, "f", "", 0, NULL, &of_own, &error));
    dualvm_frame_free(call);
}

// A frame's own results as its next arguments, and programs that fail.
static void runs(void) {
    dualvm_frame *scaled = frame("scaled"), *dot = frame("dot"), *quotient = frame("quotient"),
            *forever = frame("forever");
    double xs[3] = {1, 2, 3};
    dualvm_value args[4] = {dualvm_reals(xs, 3), dualvm_int(1), dualvm_int(1), dualvm_real(2)}, out[2];
    for (int round = 0; round < 10; round++) {
        FINE(dualvm_call(scaled, args, 4, out, 2, &error));
        args[0] = out[0];
    }
    HOLDS(out[0].len == 3 && out[0].of.reals[2] == 3 * 1024);
    dualvm_value arrays[2] = {dualvm_reals(xs, 3), dualvm_reals(xs, 3)}, gradient[2];
    for (int round = 0; round < 10; round++) {
        FINE(dualvm_value_and_grad(dot, arrays, 2, NULL, gradient, 2, &error));
        arrays[0] = gradient[1];
    }
    HOLDS(gradient[1].of.reals[2] == 3);
    dualvm_value numbers[2] = {dualvm_int(1), dualvm_int(0)};
    REFUSED(DUALVM_STATUS_TRAP, dualvm_call(quotient, numbers, 2, out, 1, &error));
    numbers[0] = dualvm_int(INT64_MIN);
    numbers[1] = dualvm_int(-1);
    REFUSED(DUALVM_STATUS_TRAP, dualvm_call(quotient, numbers, 2, out, 1, &error));
    arrays[1] = dualvm_reals(xs, 2);
    REFUSED(DUALVM_STATUS_TRAP, dualvm_call(dot, arrays, 2, out, 1, &error));
    REFUSED(DUALVM_STATUS_TRAP, dualvm_value_and_grad(dot, arrays, 2, NULL, gradient, 2, &error));
    static const uint32_t limits[] = {DUALVM_LIMIT_FUEL, DUALVM_LIMIT_DEADLINE_NS};
    for (int n = 0; n < 2; n++) {
        dualvm_options *options;
        FINE(dualvm_options_new(&options, &error));
        FINE(dualvm_options_set_limit(options, limits[n], 1000000, &error));
        FINE(dualvm_frame_set_options(forever, options, &error));
        dualvm_value one = dualvm_real(1);
        REFUSED(DUALVM_STATUS_LIMIT, dualvm_call(forever, &one, 1, out, 1, &error));
        REFUSED(DUALVM_STATUS_LIMIT, dualvm_value_and_grad(forever, &one, 1, NULL, NULL, 0, &error));
        dualvm_options_free(options);
    }
    dualvm_frame_free(scaled);
    dualvm_frame_free(dot);
    dualvm_frame_free(quotient);
    dualvm_frame_free(forever);
}

// Threads that use one frame, and free it, and use handles that others free.
static dualvm_frame *contended;
static dualvm_function *shared;

static void *contend(void *given) {
    (void)given;
    dualvm_value args[2] = {dualvm_real(3), dualvm_real(4)}, out;
    intptr_t bad = 0;
    for (int n = 0; n < 3000; n++) {
        dualvm_status status = dualvm_call(contended, args, 2, &out, 1, NULL);
        if (status == DUALVM_STATUS_OK ? out.of.real != 12 : status != DUALVM_STATUS_BUSY && status != HANDLE) {
            bad++;
        }
        dualvm_bytes *json = NULL;
        if (n % 50 == 0 && dualvm_json_call(shared, "[3,4]", 5, NULL, &json, NULL, NULL) != DUALVM_STATUS_OK) {
            bad++;
        }
        dualvm_bytes_free(json);
        if (n == 2900) {
            dualvm_frame_free(contended);
        }
    }
    return (void *)bad;
}

static void threads(void) {
    contended = frame("mult");
    shared = function("mult");
    pthread_t all[4];
    for (int n = 0; n < 4; n++) {
        if (pthread_create(&all[n], NULL, contend, NULL) != 0) {
            exit(1);
        }
    }
    for (int n = 0; n < 4; n++) {
        void *bad;
        pthread_join(all[n], &bad);
        HOLDS(bad == NULL);
    }
    dualvm_frame_free(contended);
    dualvm_function_free(shared);
}

// Lets another thread on. Two threads that only ask each other may go on for ever where one runs at a time, as under
// valgrind.
static void pause_here(void) {
    struct timespec millisecond = {0, 1000000};
    nanosleep(&millisecond, NULL);
}

// A frame is busy while its call runs in another thread; freeing it then is not a crash.
static void *run_forever(void *given) {
    dualvm_value one = dualvm_real(1), out;
    dualvm_status status;
    // The other thread looks whether the frame is busy, and then it is.
    while ((status = dualvm_call(given, &one, 1, &out, 1, NULL)) == DUALVM_STATUS_BUSY) {
        pause_here();
    }
    return (void *)(intptr_t)status;
}

static void busy(void) {
    dualvm_cancel *cancel;
    dualvm_options *options;
    dualvm_function *forever = function("forever");
    FINE(dualvm_cancel_new(&cancel, &error));
    FINE(dualvm_options_new(&options, &error));
    FINE(dualvm_options_set_cancel(options, cancel, &error));
    dualvm_frame *running;
    FINE(dualvm_frame_new(forever, options, &running, &error));
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_forever, running) != 0) {
        exit(1);
    }
    dualvm_value one = dualvm_real(1), out;
    dualvm_stats stats;
    // Until the other thread has begun there is nothing to be busy with.
    while (dualvm_frame_clear(running, NULL) != DUALVM_STATUS_BUSY) {
        pause_here();
    }
    REFUSED(DUALVM_STATUS_BUSY, dualvm_call(running, &one, 1, &out, 1, &error));
    REFUSED(DUALVM_STATUS_BUSY, dualvm_value_and_grad(running, &one, 1, NULL, NULL, 0, &error));
    REFUSED(DUALVM_STATUS_BUSY, dualvm_frame_stats(running, &stats, &error));
    REFUSED(DUALVM_STATUS_BUSY, dualvm_frame_set_options(running, NULL, &error));
    REFUSED(DUALVM_STATUS_BUSY, dualvm_frame_clear(running, &error));
    dualvm_frame_free(running);
    HOLDS(dualvm_cancel_request(cancel) == DUALVM_STATUS_OK && dualvm_cancel_is_requested(cancel));
    void *status;
    pthread_join(thread, &status);
    HOLDS((intptr_t)status == DUALVM_STATUS_CANCELLED);
    REFUSED(HANDLE, dualvm_call(running, &one, 1, &out, 1, &error));
    // A program isn't compiled any more, either.
    dualvm_module *compiled;
    REFUSED(DUALVM_STATUS_CANCELLED, dualvm_module_from_source(engine, "f", "def f (x : Real) = x",
            DUALVM_NUL_TERMINATED, options, &compiled, &error));
    dualvm_options_free(options);
    dualvm_cancel_free(cancel);
    dualvm_function_free(forever);
}

// Every prefix of a module, and modules with one other byte.
static void modules(void) {
    dualvm_bytes *bytes;
    FINE(dualvm_module_to_bytes(module, &bytes, &error));
    size_t len = dualvm_bytes_len(bytes);
    uint8_t *copy = malloc(len);
    dualvm_module *loaded = NULL;
    for (size_t n = 0; n < len; n += 1 + len / 150) {
        memcpy(copy, dualvm_bytes_data(bytes), len);
        REFUSED(DUALVM_STATUS_MODULE, dualvm_module_from_bytes(engine, copy, n, &loaded, &error));
        copy[n] ^= 0x55;
        if (dualvm_module_from_bytes(engine, copy, len, &loaded, NULL) == DUALVM_STATUS_OK) {
            HOLDS(dualvm_module_function_count(loaded) > 0);
            dualvm_module_free(loaded);
        } else {
            HOLDS(loaded == NULL);
        }
    }
    free(copy);
    dualvm_bytes_free(bytes);
}

static int drops;
static dualvm_host_call *escaped;

static void count_drop(void *data) {
    (void)data;
    drops++;
}

// What a function of the host's does wrong, by number.
static int misbehave(void *data, dualvm_host_call *call, const dualvm_value *args, size_t args_len) {
    dualvm_value real = dualvm_real(1), integer = dualvm_int(1), null = dualvm_null();
    dualvm_value array = dualvm_reals((const double *)(uintptr_t)1, 3);
    (void)data;
    HOLDS(args_len == 1);
    switch (args[0].of.integer) {
    case 0:
        REFUSED(HANDLE, dualvm_host_call_give(NULL, &real, &error));
        REFUSED(HANDLE, dualvm_host_call_give((dualvm_host_call *)(uintptr_t)77, &real, &error));
        REFUSED(HANDLE, dualvm_host_call_check(NULL, &error));
        REFUSED(HANDLE, dualvm_host_call_fail(NULL, "no", 2, &error));
        REFUSED(ARGUMENT, dualvm_host_call_fail(call, NULL, 2, &error));
        REFUSED(ARGUMENT, dualvm_host_call_fail(call, "\xff", 1, &error));
        REFUSED(ARGUMENT, dualvm_host_call_give(call, NULL, &error));
        REFUSED(ARGUMENT, dualvm_host_call_give(call, &array, &error));
        return (int)dualvm_host_call_give(call, &real, NULL);
    case 1:
        REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_host_call_give(call, &integer, &error));
        // Whatever it returns.
        return 0;
    case 2:
        REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_host_call_give(call, &null, &error));
        return 0;
    case 3:
        FINE(dualvm_host_call_give(call, &real, &error));
        REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_host_call_give(call, &real, &error));
        return 0;
    case 4:
        return 0;
    case 5:
        return -1;
    case 6: {
        // Calls inside of calls: the outer one is not to be had meanwhile.
        double back = 0;
        dualvm_frame *again = frame("mult");
        dualvm_value pair[] = {dualvm_real(3), dualvm_real(5)}, product;
        FINE(dualvm_call(again, pair, 2, &product, 1, &error));
        back = product.of.real;
        dualvm_frame_free(again);
        HOLDS(back == 15);
        dualvm_frame *inner = frame("misbehave");
        dualvm_value zero = dualvm_int(0), one = dualvm_int(1);
        FINE(dualvm_call(inner, &zero, 1, &product, 1, &error));
        REFUSED(DUALVM_STATUS_TRAP, dualvm_call(inner, &one, 1, &product, 1, &error));
        dualvm_frame_free(inner);
        return (int)dualvm_host_call_give(call, &real, NULL);
    }
    case 7:
        // Its own frame is in use.
        escaped = call;
        return (int)dualvm_host_call_give(call, &real, NULL);
    default:
        FINE(dualvm_host_call_fail(call, "on purpose", DUALVM_NUL_TERMINATED, &error));
        return 1;
    }
}

// Functions of the host's: wrong types, wrong handles, and functions that do what they should not.
static void hosts(void) {
    uint32_t real = DUALVM_LEAF_KIND_REAL, integer = DUALVM_LEAF_KIND_INT, beyond = 8, none = 0;
    dualvm_host *host = NULL, *other = NULL;
    REFUSED(ARGUMENT, dualvm_host_new(&integer, 1, &real, 1, NULL, NULL, count_drop, &host, &error));
    REFUSED(ARGUMENT, dualvm_host_new(&integer, 1, &real, 1, misbehave, NULL, count_drop, NULL, &error));
    REFUSED(ARGUMENT, dualvm_host_new(NULL, 1, &real, 1, misbehave, NULL, count_drop, &host, &error));
    REFUSED(ARGUMENT, dualvm_host_new(&integer, 1, &beyond, 1, misbehave, NULL, count_drop, &host, &error));
    REFUSED(ARGUMENT, dualvm_host_new(&none, 1, &real, 1, misbehave, NULL, count_drop, &host, &error));
    REFUSED(ARGUMENT, dualvm_host_new(&integer, SIZE_MAX, &real, 1, misbehave, NULL, count_drop, &host, &error));
    HOLDS(drops == 6 && host == NULL);
    FINE(dualvm_host_new(&integer, 1, &real, 1, misbehave, NULL, count_drop, &host, &error));
    FINE(dualvm_host_new(&real, 1, &real, 1, misbehave, NULL, NULL, &other, &error));
    REFUSED(ARGUMENT, dualvm_host_set_vjp(host, other, &error));
    REFUSED(ARGUMENT, dualvm_host_set_jvp(host, other, &error));
    // It isn't its own derivative.
    REFUSED(ARGUMENT, dualvm_host_set_vjp(host, host, &error));
    REFUSED(HANDLE, dualvm_host_set_vjp(NULL, other, &error));
    REFUSED(HANDLE, dualvm_host_set_jvp(host, NULL, &error));
    REFUSED(HANDLE, dualvm_host_set_jvp((dualvm_host *)(uintptr_t)12345, other, &error));
    dualvm_config *config = NULL;
    FINE(dualvm_config_new(&config, &error));
    REFUSED(HANDLE, dualvm_config_define(NULL, "f", 1, host, &error));
    REFUSED(HANDLE, dualvm_config_define(config, "f", 1, NULL, &error));
    REFUSED(ARGUMENT, dualvm_config_define(config, NULL, 1, host, &error));
    REFUSED(ARGUMENT, dualvm_config_define(config, "\xff", 1, host, &error));
    FINE(dualvm_config_define(config, "misbehave", DUALVM_NUL_TERMINATED, host, &error));
    REFUSED(HANDLE, dualvm_config_define_module(config, "m", 1, NULL, &error));
    REFUSED(HANDLE, dualvm_config_define_module(config, "m", 1, (dualvm_module *)host, &error));
    REFUSED(ARGUMENT, dualvm_config_define_module(config, NULL, 1, module, &error));
    REFUSED(ARGUMENT, dualvm_config_define_module(config, "\xff", 1, module, &error));
    dualvm_host_free(host);
    REFUSED(HANDLE, dualvm_host_set_jvp(host, other, &error));
    dualvm_host_free(host);
    dualvm_host_free(other);
    const char *source = "import host \"misbehave\" as f : Int -> Real\n"
                         "def mult (x : Real) (y : Real) : Real = x * y\n"
                         "def misbehave (n : Int) : Real = f n\n";
    dualvm_module *outer = module;
    dualvm_engine *own = NULL;
    REFUSED(DUALVM_STATUS_SOURCE,
            dualvm_module_from_source(engine, "h.dual", source, DUALVM_NUL_TERMINATED, NULL, &module, &error));
    FINE(dualvm_engine_new(config, &own, &error));
    dualvm_config_free(config);
    FINE(dualvm_module_from_source(own, "h.dual", source, DUALVM_NUL_TERMINATED, NULL, &module, &error));
    dualvm_frame *called = frame("misbehave");
    for (int64_t n = 0; n < 9; n++) {
        dualvm_value arg = dualvm_int(n), result;
        if (n == 0 || n == 6 || n == 7) {
            FINE(dualvm_call(called, &arg, 1, &result, 1, &error));
            HOLDS(result.of.real == 1);
        } else {
            REFUSED(DUALVM_STATUS_TRAP, dualvm_call(called, &arg, 1, &result, 1, &error));
        }
    }
    // A call that has ended.
    dualvm_value one = dualvm_real(1);
    REFUSED(HANDLE, dualvm_host_call_give(escaped, &one, &error));
    REFUSED(HANDLE, dualvm_host_call_check(escaped, &error));
    dualvm_frame_free(called);
    dualvm_module_free(module);
    dualvm_engine_free(own);
    module = outer;
    // The engine's linker was the last that needed it.
    HOLDS(drops == 7);
}

// Batches: columns and places that don't fit, overlap or aren't there; items that fail, fail alone.
static void batches(void) {
    dualvm_function *f;
    dualvm_frame *frame;
    FINE(dualvm_module_function(module, "scaled", &f, &error));
    FINE(dualvm_frame_new(f, NULL, &frame, &error));
    double xs[4] = {1, 2, 3, 4}, ks[2] = {10, 100}, rows[4];
    int64_t ons[2] = {1, 0}, wrong_ons[2] = {1, 7};
    dualvm_status statuses[2];
    dualvm_column args[4] = {dualvm_each_reals(xs, 2), dualvm_same(dualvm_int(3)), dualvm_each_ints(ons, 1),
                             dualvm_each_reals(ks, 1)};
    FINE(dualvm_batch_call(frame, 2, args, 4, rows, 4, statuses, 0, &error));
    HOLDS(rows[0] == 10 && rows[1] == 20 && rows[2] == 3 && rows[3] == 4);
    HOLDS(statuses[0] == DUALVM_STATUS_OK && statuses[1] == DUALVM_STATUS_OK);
    FINE(dualvm_batch_call(frame, 2, args, 4, NULL, 0, NULL, 0, &error));
    FINE(dualvm_batch_call(frame, 0, args, 4, NULL, 0, NULL, 0, &error));
    // An item with a boolean that is none.
    args[2] = dualvm_each_ints(wrong_ons, 1);
    REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_batch_call(frame, 2, args, 4, rows, 4, statuses, 0, &error));
    HOLDS(rows[1] == 20 && isnan(rows[2]) && isnan(rows[3]));
    HOLDS(statuses[0] == DUALVM_STATUS_OK && statuses[1] == DUALVM_STATUS_ARGUMENT);
    args[2] = dualvm_each_ints(ons, 1);
    // Rows of another length than results have.
    REFUSED(DUALVM_STATUS_RESULT, dualvm_batch_call(frame, 2, args, 4, rows, 2, NULL, 0, &error));

    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 3, rows, 4, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, NULL, 4, rows, 4, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 4, rows, 3, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 4, NULL, 4, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_call(frame, SIZE_MAX, args, 4, rows, 4, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_call(frame, SIZE_MAX / 4, args, 4, rows, 4, statuses, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 4, xs, 4, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 4, xs + 1, 2, NULL, 0, &error));
    // No places overlap with nothing.
    FINE(dualvm_batch_call(frame, 2, args, 4, xs + 1, 0, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 4, rows, 4, (dualvm_status *)(rows + 1), 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 4, (double *)((char *)rows + 1), 2, NULL, 0, &error));
    REFUSED(HANDLE, dualvm_batch_call(NULL, 2, args, 4, rows, 4, NULL, 0, &error));
    REFUSED(HANDLE, dualvm_batch_call((dualvm_frame *)f, 2, args, 4, rows, 4, NULL, 0, &error));
    dualvm_column kept = args[3];
    args[3].first.kind = 99;
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 4, rows, 4, NULL, 0, &error));
    args[3] = dualvm_same(dualvm_real(2));
    args[3].stride = 1;
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 4, rows, 4, NULL, 0, &error));
    args[3] = dualvm_same(dualvm_int(2));
    REFUSED(DUALVM_STATUS_ARGUMENT, dualvm_batch_call(frame, 2, args, 4, rows, 4, NULL, 0, &error));
    args[3] = kept;
    args[3].stride = SIZE_MAX;
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 3, args, 4, rows, 3, NULL, 0, &error));
    args[3] = dualvm_each_reals(NULL, 1);
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 4, rows, 4, NULL, 0, &error));
    args[3] = dualvm_each_reals((double *)((char *)ks + 1), 1);
    REFUSED(ARGUMENT, dualvm_batch_call(frame, 2, args, 4, rows, 4, NULL, 0, &error));
    double values[2], gradient[6];
    args[3] = kept;
    REFUSED(DUALVM_STATUS_NOT_SCALAR,
            dualvm_batch_value_and_grad(frame, 2, args, 4, values, gradient, 6, NULL, 0, &error));
    dualvm_frame_free(frame);
    REFUSED(HANDLE, dualvm_batch_call(frame, 2, args, 4, rows, 4, NULL, 0, &error));
    dualvm_function_free(f);

    FINE(dualvm_module_function(module, "mult", &f, &error));
    FINE(dualvm_frame_new(f, NULL, &frame, &error));
    // A matrix with a row for each item: x, something else, y.
    double matrix[6] = {2, 0, 5, 3, 0, 7};
    dualvm_column pair[2] = {dualvm_each_reals(matrix, 1), dualvm_each_reals(matrix + 2, 1)};
    pair[0].stride = pair[1].stride = 3;
    FINE(dualvm_batch_value_and_grad(frame, 2, pair, 2, values, gradient, 4, statuses, 0, &error));
    HOLDS(values[0] == 10 && values[1] == 21);
    HOLDS(gradient[0] == 5 && gradient[1] == 2 && gradient[2] == 7 && gradient[3] == 3);
    FINE(dualvm_batch_value_and_grad(frame, 2, pair, 2, NULL, gradient, 4, NULL, 0, &error));
    FINE(dualvm_batch_value_and_grad(frame, 2, pair, 2, values, NULL, 0, NULL, 0, &error));
    FINE(dualvm_batch_value_and_grad(frame, 2, pair, 2, NULL, NULL, 0, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_value_and_grad(frame, 2, pair, 2, values, values, 2, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_value_and_grad(frame, 2, pair, 2, matrix + 4, gradient, 4, NULL, 0, &error));
    REFUSED(ARGUMENT, dualvm_batch_value_and_grad(frame, 2, pair, 2, values, gradient, 5, NULL, 0, &error));
    // No time at all.
    REFUSED(DUALVM_STATUS_LIMIT, dualvm_batch_value_and_grad(frame, 2, pair, 2, values, gradient, 4, statuses, 1, &error));
    HOLDS(isnan(values[0]) && isnan(gradient[3]) && statuses[1] == DUALVM_STATUS_LIMIT);
    dualvm_frame_free(frame);
    dualvm_function_free(f);
}

int main(void) {
    if (dualvm_abi_version() != DUALVM_ABI_VERSION) {
        printf("the library is of another version\n");
        return 1;
    }
    FINE(dualvm_engine_new(NULL, &engine, &error));
    FINE(dualvm_module_from_source(engine, "hostile.dual", SOURCE, DUALVM_NUL_TERMINATED, NULL, &module, &error));
    handles();
    places();
    lengths();
    kinds();
    numbers();
    texts();
    freed();
    runs();
    threads();
    busy();
    modules();
    // Not under valgrind, which doesn't know that a thread goes back to its own stack.
    if (getenv("DUALVM_NO_HOST_FUNCTIONS") == NULL) {
        hosts();
    }
    batches();
    dualvm_module_free(module);
    dualvm_engine_free(engine);
    HOLDS(dualvm_handle_count() == 0);
    printf("%d hostile calls, %d of them with another end than an error\n", calls, wrong);
    return calls < 200 || wrong > 0;
}
