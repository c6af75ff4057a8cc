#!/bin/sh
# Cargo calls this with the compiler and its arguments. cargo-fuzz asks for coverage and debug assertions in every crate;
# here only our own crates get them. With an instrumented Cranelift most of the time goes into counting its edges, and
# the fuzzer looks for programs that are interesting to Cranelift.
set -eu
case " $* " in
    *" --crate-name dualvm"* | *" fuzz_targets/"*) exec "$@" ;;
esac
compiler=$1
shift
for argument; do
    shift
    case $argument in
        -Cpasses=sancov-module | -Cllvm-args=-* | -Cdebug-assertions) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "$compiler" "$@"
