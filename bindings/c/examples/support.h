// What the examples have in common: an end with a message where something goes wrong.

#ifndef SUPPORT_H
#define SUPPORT_H

#include "dualvm.h"
#include <stdio.h>
#include <stdlib.h>

// Ends the program if a call has failed.
static inline void must(dualvm_status status, dualvm_error *error) {
    if (status != DUALVM_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", dualvm_status_name(status), dualvm_error_message(error));
        dualvm_error_free(error);
        exit(1);
    }
}

#endif
