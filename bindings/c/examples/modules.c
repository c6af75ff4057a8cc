// Modules that call each other: a library that is compiled once, and programs that import it.

#include "support.h"

static const char *SHAPES =
    "type Shape = Circle Real | Square { side : Real }\n"
    "def area (s : Shape) : Real = match s with | Circle r -> pi * r ^ 2 | Square { side = x } -> x * x\n";

// Calls a function of a module with a number, for its value and its derivative.
static void show(dualvm_module *module, const char *name) {
    dualvm_error *error = NULL;
    dualvm_function *function = NULL;
    dualvm_bytes *answer = NULL;
    must(dualvm_module_function(module, name, &function, &error), error);
    must(dualvm_json_value_and_grad(function, "[2.0]", 5, NULL, &answer, NULL, &error), error);
    printf("%s: %s\n", name, dualvm_bytes_data(answer));
    dualvm_bytes_free(answer);
    dualvm_function_free(function);
}

int main(void) {
    dualvm_error *error = NULL;
    dualvm_engine *engine = NULL;
    dualvm_module *shapes = NULL;
    must(dualvm_engine_new(NULL, &engine, &error), error);
    must(dualvm_module_from_source(engine, "shapes.dual", SHAPES, DUALVM_NUL_TERMINATED, NULL, &shapes, &error), error);

    // A program imports it like a file, and isn't compiled together with it.
    dualvm_options *options = NULL;
    dualvm_module *table = NULL;
    must(dualvm_options_new(&options, &error), error);
    must(dualvm_options_add_module(options, "shapes", shapes, &error), error);
    const char *source = "import shapes\n"
                         "def both (x : Real) : Real = shapes.area (shapes.Circle x) + shapes.area (shapes.Square { side = x })";
    must(dualvm_module_from_source(engine, "table.dual", source, DUALVM_NUL_TERMINATED, options, &table, &error), error);
    show(table, "both");

    // Bytes of the program have in them what it calls of the library.
    dualvm_bytes *bytes = NULL;
    dualvm_module *again = NULL;
    must(dualvm_module_to_bytes(table, &bytes, &error), error);
    const uint8_t *data = (const uint8_t *)dualvm_bytes_data(bytes);
    must(dualvm_module_from_bytes(engine, data, dualvm_bytes_len(bytes), &again, &error), error);
    show(again, "both");

    // An engine may have it for all of its programs. Types are compared by what they are made of.
    dualvm_config *config = NULL;
    dualvm_engine *own = NULL;
    dualvm_module *square = NULL;
    must(dualvm_config_new(&config, &error), error);
    must(dualvm_config_define_module(config, "shapes", DUALVM_NUL_TERMINATED, shapes, &error), error);
    must(dualvm_engine_new(config, &own, &error), error);
    source = "import host \"shapes.area\" as area : Form -> Real\n"
             "type Form = Circle Real | Square { side : Real }\n"
             "def square (x : Real) : Real = area (Square { side = x })";
    must(dualvm_module_from_source(own, "square.dual", source, DUALVM_NUL_TERMINATED, NULL, &square, &error), error);
    show(square, "square");

    // Without it there is nobody who gives what the program imports.
    dualvm_module *none = NULL;
    dualvm_status status =
        dualvm_module_from_source(engine, "square.dual", source, DUALVM_NUL_TERMINATED, NULL, &none, &error);
    printf("[%s] %s\n", dualvm_status_name(status), dualvm_error_message(error));

    dualvm_error_free(error);
    dualvm_config_free(config);
    dualvm_options_free(options);
    dualvm_bytes_free(bytes);
    dualvm_module_free(square);
    dualvm_module_free(again);
    dualvm_module_free(table);
    dualvm_module_free(shapes);
    dualvm_engine_free(own);
    dualvm_engine_free(engine);
    printf("handles left: %zu\n", dualvm_handle_count());
    return 0;
}
