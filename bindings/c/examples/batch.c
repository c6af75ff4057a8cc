// Many calls at a time, on all threads: values and gradients of a function for a table of arguments.

#include "support.h"

static const char *SOURCE = "-- The price of a call option by Black and Scholes, about: with a logistic function.\n"
                            "def price (spot : Real) (strike : Real) (years : Real) (vol : Real) : Real =\n"
                            "  if strike <= 0 then [| strike |][1] else\n"
                            "  let d = (log (spot / strike) + vol ^ 2 / 2 * years) / (vol * sqrt years) in\n"
                            "  let normal x = 1 / (1 + exp (-1.702 * x)) in\n"
                            "  spot * normal d - strike * normal (d - vol * sqrt years)\n";

int main(void) {
    dualvm_engine *engine;
    dualvm_module *module;
    dualvm_function *price, *greeks;
    dualvm_frame *frame;
    dualvm_error *error;
    must(dualvm_engine_new(NULL, &engine, &error), error);
    must(dualvm_module_from_source(engine, "price.dual", SOURCE, DUALVM_NUL_TERMINATED, NULL, &module, &error), error);
    must(dualvm_module_function(module, "price", &price, &error), error);
    // By the spot and the volatility only.
    const char *names[] = {"spot", "vol"};
    must(dualvm_function_wrt(price, names, 2, &greeks, &error), error);
    must(dualvm_frame_new(greeks, NULL, &frame, &error), error);

    // A row for each item: spot, strike, years. The volatility is the same for all.
    enum { ITEMS = 5 };
    const double table[ITEMS][3] = {{100, 90, 1}, {100, 100, 1}, {100, 110, 1}, {100, 0, 1}, {100, 100, 0.25}};
    dualvm_column args[4];
    for (int n = 0; n < 3; n++) {
        args[n] = dualvm_each_reals(&table[0][n], 1);
        args[n].stride = 3;
    }
    args[3] = dualvm_same(dualvm_real(0.2));
    double values[ITEMS], gradient[ITEMS][2];
    dualvm_status statuses[ITEMS];
    dualvm_status status =
        dualvm_batch_value_and_grad(frame, ITEMS, args, 4, values, gradient[0], 2 * ITEMS, statuses, 0, &error);
    for (int n = 0; n < ITEMS; n++) {
        if (statuses[n] == DUALVM_STATUS_OK) {
            printf("strike %3.0f, %.2f years: %7.4f, delta %.4f, vega %7.4f\n", table[n][1], table[n][2], values[n],
                   gradient[n][0], gradient[n][1]);
        } else {
            printf("strike %3.0f, %.2f years: %s\n", table[n][1], table[n][2], dualvm_status_name(statuses[n]));
        }
    }
    if (status != DUALVM_STATUS_OK) {
        printf("%s\n", dualvm_error_summary(error));
    }

    dualvm_error_free(error);
    dualvm_frame_free(frame);
    dualvm_function_free(greeks);
    dualvm_function_free(price);
    dualvm_module_free(module);
    dualvm_engine_free(engine);
    printf("handles left: %zu\n", dualvm_handle_count());
    return 0;
}
