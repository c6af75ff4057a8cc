// Data types: values of any type go in and come out as JSON, and a gradient has the shape of its argument. What a
// function takes is found out by going through its types.

#include "support.h"
#include <string.h>

static const char *SOURCE =
    "type Shape = Circle Real | Rect { width : Real, height : Real } | Group (List Shape)\n"
    "def area (shape : Shape) : Real =\n"
    "  match shape with\n"
    "  | Circle r -> pi * r ^ 2\n"
    "  | Rect { width, height } -> width * height\n"
    "  | Group shapes -> sum (map area shapes)\n"
    "def cost (price : Real) (shape : Shape) (by : Real) : Real = price * by * area shape\n";

// Prints a type with what it is made of. A data type is printed whole once: it may contain itself.
static void print_type(const dualvm_function *function, size_t ty, int depth, size_t *seen, size_t *seen_count) {
    static const char *NAMES[] = {"other", "real", "int", "bool", "tuple", "record", "array", "list", "tensor", "data"};
    dualvm_error *error = NULL;
    dualvm_type info;
    must(dualvm_function_type(function, ty, &info, &error), error);
    printf("%s%s%s\n", NAMES[info.kind], info.name ? " " : "", info.name ? info.name : "");
    for (size_t n = 0; n < *seen_count; n++) {
        if (seen[n] == ty) {
            return;
        }
    }
    if (info.kind == DUALVM_TYPE_KIND_DATA && *seen_count < 8) {
        seen[(*seen_count)++] = ty;
    }
    for (size_t n = 0; n < info.child_count && depth < 4; n++) {
        dualvm_type_child child;
        must(dualvm_function_type_child(function, ty, n, &child, &error), error);
        printf("%*s%s%s", 2 * depth + 2, "", child.name ? child.name : "-", child.name ? ": " : " ");
        print_type(function, child.ty, depth + 1, seen, seen_count);
    }
}

int main(void) {
    dualvm_error *error = NULL;
    dualvm_engine *engine;
    dualvm_module *module;
    dualvm_function *area;
    dualvm_bytes *answer;
    must(dualvm_engine_new(NULL, &engine, &error), error);
    must(dualvm_module_from_source(engine, "shapes.dual", SOURCE, strlen(SOURCE), NULL, &module, &error), error);
    must(dualvm_module_function(module, "area", &area, &error), error);

    size_t seen[8], seen_count = 0;
    printf("%s: ", dualvm_function_param_name(area, 0));
    print_type(area, 0, 0, seen, &seen_count);

    const char *args = "[{\"Group\": [{\"Circle\": 0.5}, {\"Rect\": {\"width\": 2, \"height\": 3}}]}]";
    dualvm_stats stats;
    must(dualvm_json_value_and_grad(area, args, strlen(args), NULL, &answer, &stats, &error), error);
    printf("%s\n", dualvm_bytes_data(answer));
    dualvm_bytes_free(answer);

    // How much the area grows if all grow at the same rate.
    const char *tangents = "[{\"Group\": [{\"Circle\": 0.5}, {\"Rect\": {\"width\": 2, \"height\": 3}}]}]";
    must(dualvm_json_jvp(area, args, strlen(args), tangents, strlen(tangents), NULL, &answer, NULL, &error), error);
    printf("%s\n", dualvm_bytes_data(answer));
    dualvm_bytes_free(answer);

    // What all calls have in common is read once. What is left are numbers, which frames take.
    dualvm_function *cost, *cost_of_shape;
    dualvm_frame *frame;
    const char *shape = "{\"Rect\": {\"width\": 2, \"height\": 3}}";
    must(dualvm_module_function(module, "cost", &cost, &error), error);
    must(dualvm_json_bind(cost, "shape", shape, strlen(shape), &cost_of_shape, &error), error);
    must(dualvm_frame_new(cost_of_shape, NULL, &frame, &error), error);
    dualvm_value numbers[] = {dualvm_real(5), dualvm_real(10)};
    double value, gradient[2];
    must(dualvm_value_and_grad_into(frame, numbers, 2, &value, gradient, 2, &error), error);
    printf("%s: %g, %g, %g\n", dualvm_function_signature(cost_of_shape), value, gradient[0], gradient[1]);
    dualvm_frame_free(frame);
    dualvm_function_free(cost_of_shape);
    dualvm_function_free(cost);

    // What doesn't fit is said with its place.
    const char *wrong = "[{\"Group\": [{\"Circle\": true}]}]";
    dualvm_status status = dualvm_json_call(area, wrong, strlen(wrong), NULL, &answer, NULL, &error);
    printf("%s: %s\n", dualvm_status_name(status), dualvm_error_message(error));
    dualvm_error_free(error);

    dualvm_function_free(area);
    dualvm_module_free(module);
    dualvm_engine_free(engine);
    printf("handles left: %zu\n", dualvm_handle_count());
    return 0;
}
