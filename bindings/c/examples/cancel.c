// Cancellation: a thread runs a program that never ends, and another one stops it.

#include "support.h"
#include <pthread.h>
#include <time.h>

static const char *SOURCE = "def f (x : Real) : Real = loop y = x while y < 1e300 do (y + x) / 2";

static void *run(void *given) {
    dualvm_frame *frame = given;
    dualvm_error *error = NULL;
    dualvm_value arg = dualvm_real(1), result;
    dualvm_status status = dualvm_call(frame, &arg, 1, &result, 1, &error);
    printf("the call ended: %s\n", dualvm_status_name(status));
    printf("%s\n", dualvm_error_summary(error));
    dualvm_error_free(error);
    return NULL;
}

int main(void) {
    dualvm_error *error = NULL;
    dualvm_engine *engine;
    dualvm_module *module;
    dualvm_function *forever;
    dualvm_options *options;
    dualvm_cancel *cancel;
    dualvm_frame *frame;
    must(dualvm_engine_new(NULL, &engine, &error), error);
    must(dualvm_module_from_source(engine, "f.dual", SOURCE, DUALVM_NUL_TERMINATED, NULL, &module, &error), error);
    must(dualvm_module_function(module, "f", &forever, &error), error);
    must(dualvm_cancel_new(&cancel, &error), error);
    must(dualvm_options_new(&options, &error), error);
    must(dualvm_options_set_cancel(options, cancel, &error), error);
    must(dualvm_frame_new(forever, options, &frame, &error), error);

    pthread_t thread;
    if (pthread_create(&thread, NULL, run, frame) != 0) {
        return 1;
    }
    struct timespec moment = {0, 50000000};
    nanosleep(&moment, NULL);
    printf("stopping it\n");
    // As good from a signal handler.
    must(dualvm_cancel_request(cancel), NULL);
    pthread_join(thread, NULL);

    dualvm_frame_free(frame);
    dualvm_cancel_free(cancel);
    dualvm_options_free(options);
    dualvm_function_free(forever);
    dualvm_module_free(module);
    dualvm_engine_free(engine);
    printf("handles left: %zu\n", dualvm_handle_count());
    return 0;
}
