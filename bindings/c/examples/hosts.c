// Functions of the host's: a program calls functions written here, and differentiates through them.

#include "support.h"
#include <math.h>

static const char *SOURCE = "import host \"drag\" : Real -> Real\n"
                            "import host \"quadrature\" : Array Real -> (Real, Int)\n"
                            "import host \"transpose\" : Matrix Real -> Matrix Real\n"
                            "def fall (k : Real) (v : Real) : Real =\n"
                            "  loop u = v for i < 10 do u - 0.1 * k * drag u\n"
                            "def area (heights : Array Real) (width : Real) : Real =\n"
                            "  let (sum, panels) = quadrature heights in sum * width / to_real panels\n"
                            "def corner (m : Matrix Real) : Real = let t = transpose m in t[0, 1] * t[2, 0]\n";

// v -> v |v| / 2, whatever `data` says the air is like.
static int drag(void *data, dualvm_host_call *call, const dualvm_value *args, size_t args_len) {
    (void)args_len;
    double v = args[0].of.real;
    dualvm_value result = dualvm_real(*(double *)data * 0.5 * v * fabs(v));
    return (int)dualvm_host_call_give(call, &result, NULL);
}

// Its vjp: (v, d) -> d |v|.
static int drag_vjp(void *data, dualvm_host_call *call, const dualvm_value *args, size_t args_len) {
    (void)args_len;
    dualvm_value result = dualvm_real(*(double *)data * args[1].of.real * fabs(args[0].of.real));
    return (int)dualvm_host_call_give(call, &result, NULL);
}

// The trapezoidal rule on panels of width 1: arrays are read where the machine has them.
static int quadrature(void *data, dualvm_host_call *call, const dualvm_value *args, size_t args_len) {
    (void)data, (void)args_len;
    if (args[0].len < 2) {
        dualvm_host_call_fail(call, "a curve has two points or more", DUALVM_NUL_TERMINATED, NULL);
        return 1;
    }
    double sum = 0;
    for (size_t n = 0; n + 1 < args[0].len; n++) {
        sum += 0.5 * (args[0].of.reals[n] + args[0].of.reals[n + 1]);
    }
    dualvm_value result = dualvm_real(sum), panels = dualvm_int((int64_t)args[0].len - 1);
    return dualvm_host_call_give(call, &result, NULL) != DUALVM_STATUS_OK ||
           dualvm_host_call_give(call, &panels, NULL) != DUALVM_STATUS_OK;
}

// The transpose of a matrix, which is a shape and elements: its last argument. Its vjp, which takes a matrix and a
// cotangent of the result, is the transpose of that, so this is one as well.
static int transpose(void *data, dualvm_host_call *call, const dualvm_value *args, size_t args_len) {
    (void)data;
    const dualvm_value *shape = &args[args_len - 2], *elements = &args[args_len - 1];
    int64_t rows = shape->of.integers[0], columns = shape->of.integers[1], turned[] = {columns, rows};
    double *moved = malloc(elements->len * sizeof(double) + 1);
    if (!moved) {
        return 1;
    }
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < columns; column++) {
            moved[column * rows + row] = elements->of.reals[row * columns + column];
        }
    }
    dualvm_value result_shape = dualvm_ints(turned, 2), result = dualvm_reals(moved, elements->len);
    int failed = dualvm_host_call_give(call, &result_shape, NULL) != DUALVM_STATUS_OK ||
                 dualvm_host_call_give(call, &result, NULL) != DUALVM_STATUS_OK;
    free(moved);
    return failed;
}

static void dropped(void *data) {
    printf("nobody needs a density of %g any more\n", *(double *)data);
}

int main(void) {
    dualvm_error *error = NULL;
    static double density = 1.0;
    uint32_t real = DUALVM_LEAF_KIND_REAL, reals = DUALVM_LEAF_KIND_REALS;
    uint32_t pair[] = {DUALVM_LEAF_KIND_REAL, DUALVM_LEAF_KIND_REAL};
    uint32_t sum_and_count[] = {DUALVM_LEAF_KIND_REAL, DUALVM_LEAF_KIND_INT};
    uint32_t shape = DUALVM_LEAF_KIND_SHAPE, matrices[] = {shape, reals, shape, reals};
    dualvm_host *of_drag, *vjp, *of_quadrature, *of_transpose, *of_transpose_vjp;
    dualvm_config *config;
    dualvm_engine *engine;
    must(dualvm_host_new(&real, 1, &real, 1, drag, &density, dropped, &of_drag, &error), error);
    must(dualvm_host_new(pair, 2, &real, 1, drag_vjp, &density, NULL, &vjp, &error), error);
    must(dualvm_host_set_vjp(of_drag, vjp, &error), error);
    must(dualvm_host_new(&reals, 1, sum_and_count, 2, quadrature, NULL, NULL, &of_quadrature, &error), error);
    must(dualvm_host_new(matrices, 2, matrices, 2, transpose, NULL, NULL, &of_transpose, &error), error);
    must(dualvm_host_new(matrices, 4, matrices, 2, transpose, NULL, NULL, &of_transpose_vjp, &error), error);
    must(dualvm_host_set_vjp(of_transpose, of_transpose_vjp, &error), error);
    must(dualvm_config_new(&config, &error), error);
    must(dualvm_config_define(config, "drag", DUALVM_NUL_TERMINATED, of_drag, &error), error);
    must(dualvm_config_define(config, "quadrature", DUALVM_NUL_TERMINATED, of_quadrature, &error), error);
    must(dualvm_config_define(config, "transpose", DUALVM_NUL_TERMINATED, of_transpose, &error), error);
    must(dualvm_engine_new(config, &engine, &error), error);
    dualvm_host_free(of_drag);
    dualvm_host_free(vjp);
    dualvm_host_free(of_quadrature);
    dualvm_host_free(of_transpose);
    dualvm_host_free(of_transpose_vjp);
    dualvm_config_free(config);

    dualvm_module *module;
    dualvm_function *fall, *area, *corner;
    dualvm_frame *frame;
    must(dualvm_module_from_source(engine, "fall.dual", SOURCE, DUALVM_NUL_TERMINATED, NULL, &module, &error), error);
    must(dualvm_module_function(module, "fall", &fall, &error), error);
    must(dualvm_frame_new(fall, NULL, &frame, &error), error);
    dualvm_value args[] = {dualvm_real(1), dualvm_real(2)}, gradient[2];
    double value;
    must(dualvm_value_and_grad(frame, args, 2, &value, gradient, 2, &error), error);
    printf("fall 1 2 = %.6f, gradient %.6f %.6f\n", value, gradient[0].of.real, gradient[1].of.real);
    dualvm_frame_free(frame);

    must(dualvm_module_function(module, "area", &area, &error), error);
    must(dualvm_frame_new(area, NULL, &frame, &error), error);
    double heights[] = {0, 1, 4, 9};
    dualvm_value curve[] = {dualvm_reals(heights, 4), dualvm_real(6)}, result;
    must(dualvm_call(frame, curve, 2, &result, 1, &error), error);
    printf("area %.4f\n", result.of.real);
    // What has no derivative, and what the function says itself.
    dualvm_status status = dualvm_value_and_grad(frame, curve, 2, &value, gradient, 2, &error);
    printf("%s: %s\n", dualvm_status_name(status), dualvm_error_summary(error));
    dualvm_error_free(error);
    curve[0] = dualvm_reals(heights, 1);
    status = dualvm_call(frame, curve, 2, &result, 1, &error);
    printf("%s: %s\n", dualvm_status_name(status), dualvm_error_message(error));
    dualvm_error_free(error);

    dualvm_frame_free(frame);

    // The gradient of a matrix is its shape, which is nothing, and its elements.
    must(dualvm_module_function(module, "corner", &corner, &error), error);
    must(dualvm_frame_new(corner, NULL, &frame, &error), error);
    double elements[] = {1, 2, 3, 4, 5, 6};
    int64_t two_by_three[] = {2, 3};
    dualvm_value m[] = {dualvm_ints(two_by_three, 2), dualvm_reals(elements, 6)}, by_m[2];
    must(dualvm_value_and_grad(frame, m, 2, &value, by_m, 2, &error), error);
    printf("corner %g, gradient", value);
    for (size_t n = 0; n < by_m[1].len; n++) {
        printf(" %g", by_m[1].of.reals[n]);
    }
    printf("\n");
    dualvm_frame_free(frame);
    dualvm_function_free(corner);
    dualvm_function_free(fall);
    dualvm_function_free(area);
    dualvm_module_free(module);
    dualvm_engine_free(engine);
    printf("handles left: %zu\n", dualvm_handle_count());
    return 0;
}
