"""The doctor on the faults that DEForm (package `defaultplusplus`) injects."""
