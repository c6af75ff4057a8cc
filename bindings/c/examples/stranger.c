// Programs of strangers: limits on what compiling and running may use, and errors that can be shown to who wrote them.

#include "support.h"
#include <string.h>

static dualvm_engine *engine;
static dualvm_options *limits;

// Compiles a program and calls its function `f` with 1.
static void try(const char *title, const char *source) {
    printf("== %s\n", title);
    dualvm_error *error = NULL;
    dualvm_module *module = NULL;
    dualvm_function *function = NULL;
    dualvm_bytes *answer = NULL;
    size_t len = strlen(source);
    dualvm_status status = dualvm_module_from_source(engine, "their.dual", source, len, limits, &module, &error);
    if (status == DUALVM_STATUS_OK) {
        status = dualvm_module_function(module, "f", &function, &error);
    }
    if (status == DUALVM_STATUS_OK) {
        status = dualvm_json_call(function, "[1.0]", 5, limits, &answer, NULL, &error);
    }
    if (status == DUALVM_STATUS_OK) {
        printf("%s\n", dualvm_bytes_data(answer));
    } else {
        printf("[%s] %s\n", dualvm_status_name(status), dualvm_error_message(error));
        if (dualvm_error_limit(error) == DUALVM_LIMIT_FUEL) {
            printf("(it may have more fuel, if it asks nicely)\n");
        }
        // For an editor: where to put marks.
        for (size_t n = 0; n < dualvm_error_place_count(error) && n < 2; n++) {
            dualvm_error *none = NULL;
            dualvm_place place;
            must(dualvm_error_place(error, n, &place, &none), none);
            printf("-> %s:%u:%u %s%s\n", place.file, place.line, place.column, place.function, place.message);
        }
    }
    dualvm_error_free(error);
    dualvm_bytes_free(answer);
    dualvm_function_free(function);
    dualvm_module_free(module);
}

int main(void) {
    dualvm_error *error = NULL;
    must(dualvm_engine_new(NULL, &engine, &error), error);
    must(dualvm_options_new(&limits, &error), error);
    must(dualvm_options_set_untrusted(limits, &error), error);
    must(dualvm_options_set_limit(limits, DUALVM_LIMIT_FUEL, 1000000, &error), error);
    must(dualvm_options_set_limit(limits, DUALVM_LIMIT_LIVE_BYTES, 1 << 20, &error), error);

    try("a good one", "def f (x : Real) : Real = x + 1");
    try("one with a mistake", "def f (x : Real) : Real = sqr x");
    try("one that doesn't end", "def f (x : Real) : Real = loop y = x while y > 0 do y + 1");
    try("one that wants too much memory",
        "def f (x : Real) : Real =\n  let xs = [| x * to_real i for i < 10000000 |] in\n  xs[length xs - 1] + xs[3]");
    try("one that stops", "def f (x : Real) : Real =\n  let xs = [| x |] in\n  xs[3]");

    dualvm_options_free(limits);
    dualvm_engine_free(engine);
    printf("handles left: %zu\n", dualvm_handle_count());
    return 0;
}
