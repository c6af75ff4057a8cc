// What calls through C cost. `bench quick` only looks whether it runs.

#include "support.h"
#include <string.h>
#include <time.h>

static const char *SOURCE = "def mult (x : Real) (y : Real) : Real = x * y\n"
                            "def dot (xs : Array Real) (ys : Array Real) : Real =\n"
                            "  loop sum = 0.0 for i < length xs do sum + xs[i] * ys[i]\n";

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

// Puts the least time per call of several batches into `ns`, in nanoseconds: what else runs on the machine only adds.
#define LEAST(batches, count, call)                                                                                    \
    do {                                                                                                               \
        ns = 1e300;                                                                                                    \
        for (int batch = 0; batch < (batches); batch++) {                                                              \
            double began = now();                                                                                      \
            for (int n = 0; n < (count); n++) {                                                                        \
                call;                                                                                                  \
            }                                                                                                          \
            double each = (now() - began) / (count);                                                                   \
            ns = each < ns ? each : ns;                                                                                \
        }                                                                                                              \
    } while (0)

int main(int argc, char **argv) {
    int quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    int batches = quick ? 2 : 300, count = quick ? 10 : 10000;
    dualvm_error *error = NULL;
    dualvm_engine *engine;
    dualvm_module *module;
    dualvm_function *mult, *dot;
    dualvm_frame *mult_frame, *dot_frame;
    must(dualvm_engine_new(NULL, &engine, &error), error);
    must(dualvm_module_from_source(engine, "bench.dual", SOURCE, DUALVM_NUL_TERMINATED, NULL, &module, &error), error);
    must(dualvm_module_function(module, "mult", &mult, &error), error);
    must(dualvm_module_function(module, "dot", &dot, &error), error);
    must(dualvm_frame_new(mult, NULL, &mult_frame, &error), error);
    must(dualvm_frame_new(dot, NULL, &dot_frame, &error), error);

    dualvm_value args[] = {dualvm_real(3), dualvm_real(4)}, result;
    double value, gradient[2], ns;
    LEAST(batches, count, must(dualvm_call(mult_frame, args, 2, &result, 1, &error), error));
    printf("mult, value             %10.1f ns\n", ns);
    LEAST(batches, count, must(dualvm_value_and_grad_into(mult_frame, args, 2, &value, gradient, 2, &error), error));
    printf("mult, gradient          %10.1f ns\n", ns);

    enum { LEN = 1000000 };
    size_t len = quick ? 1000 : LEN;
    double *xs = malloc(len * sizeof *xs), *ys = malloc(len * sizeof *ys), *copy = malloc(2 * len * sizeof *xs);
    for (size_t n = 0; n < len; n++) {
        xs[n] = n % 7;
        ys[n] = n % 5;
    }
    dualvm_value arrays[] = {dualvm_reals(xs, len), dualvm_reals(ys, len)}, by[2];
    batches = quick ? 1 : 40;
    LEAST(batches, 1, must(dualvm_call(dot_frame, arrays, 2, &result, 1, &error), error));
    printf("dot product, value      %10.3f ms\n", ns / 1e6);
    LEAST(batches, 1, must(dualvm_value_and_grad(dot_frame, arrays, 2, &value, by, 2, &error), error));
    printf("dot product, gradient   %10.3f ms\n", ns / 1e6);
    LEAST(batches, 1, memcpy(copy, xs, len * sizeof *xs); memcpy(copy + len, ys, len * sizeof *ys));
    printf("two copies of its size  %10.3f ms\n", ns / 1e6);

    free(xs);
    free(ys);
    free(copy);
    dualvm_frame_free(dot_frame);
    dualvm_frame_free(mult_frame);
    dualvm_function_free(dot);
    dualvm_function_free(mult);
    dualvm_module_free(module);
    dualvm_engine_free(engine);
    return 0;
}
