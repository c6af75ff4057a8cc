// Logistic regression by gradient descent: arrays go in without a copy, the gradient comes out into the unknowns' own
// memory layout.

#include "support.h"

static const char *SOURCE =
    "-- Minus the mean logarithm of how likely the labels are, and a little of the weights' squares.\n"
    "def loss (weights : Array Real) (bias : Real) (points : Matrix Real) (labels : Array Bool) : Real =\n"
    "  let total = loop total = 0.0 for i < rows points do\n"
    "    let score = loop score = bias for j < columns points do score + weights[j] * points[i, j] in\n"
    "    total + log (1 + exp (if labels[i] then -score else score)) in\n"
    "  total / to_real (rows points) + 0.01 * sum [| w * w for w in weights |]\n";

int main(void) {
    dualvm_error *error = NULL;
    dualvm_engine *engine;
    dualvm_module *module;
    dualvm_function *loss, *by_unknowns;
    dualvm_frame *frame;
    must(dualvm_engine_new(NULL, &engine, &error), error);
    must(dualvm_module_from_source(engine, "fit.dual", SOURCE, DUALVM_NUL_TERMINATED, NULL, &module, &error), error);
    must(dualvm_module_function(module, "loss", &loss, &error), error);
    printf("%s\n", dualvm_function_signature(loss));

    // The data are constants: they take no tape.
    const char *unknowns[] = {"weights", "bias"};
    must(dualvm_function_wrt(loss, unknowns, 2, &by_unknowns, &error), error);
    must(dualvm_frame_new(by_unknowns, NULL, &frame, &error), error);

    // What a call takes, in order: a matrix is its shape and then its elements.
    size_t count;
    must(dualvm_function_leaf_count(by_unknowns, DUALVM_SIDE_PARAMS, &count, &error), error);
    for (size_t n = 0; n < count; n++) {
        dualvm_leaf leaf;
        must(dualvm_function_leaf(by_unknowns, DUALVM_SIDE_PARAMS, n, &leaf, &error), error);
        printf("  %s%s\n", leaf.place, leaf.has_derivative ? " (differentiated)" : "");
    }

    // Two clouds of points, one behind a line and one before it.
    enum { POINTS = 200 };
    static double points[POINTS][2];
    static int64_t labels[POINTS];
    uint32_t state = 1;
    for (int i = 0; i < POINTS; i++) {
        for (int j = 0; j < 2; j++) {
            state = 1664525 * state + 1013904223;
            points[i][j] = state / 4294967296.0 * 4 - 2;
        }
        labels[i] = points[i][0] - 2 * points[i][1] > 0.5;
    }

    double weights[2] = {0, 0}, bias = 0, gradient[3], value = 0;
    int64_t shape[2] = {POINTS, 2};
    for (int step = 0; step <= 400; step++) {
        dualvm_value args[] = {dualvm_reals(weights, 2), dualvm_real(bias), dualvm_ints(shape, 2),
                               dualvm_reals(&points[0][0], 2 * POINTS), dualvm_ints(labels, POINTS)};
        must(dualvm_value_and_grad_into(frame, args, 5, &value, gradient, 3, &error), error);
        if (step % 100 == 0) {
            printf("step %3d: loss %.6f\n", step, value);
        }
        for (int j = 0; j < 2; j++) {
            weights[j] -= 2 * gradient[j];
        }
        bias -= 2 * gradient[2];
    }
    printf("weights %.4f %.4f, bias %.4f\n", weights[0], weights[1], bias);

    dualvm_frame_free(frame);
    dualvm_function_free(by_unknowns);
    dualvm_function_free(loss);
    dualvm_module_free(module);
    dualvm_engine_free(engine);
    printf("handles left: %zu\n", dualvm_handle_count());
    return 0;
}
