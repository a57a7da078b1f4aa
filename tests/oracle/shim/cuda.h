/* The same as cuda_runtime_api.h beside it. */
#ifndef ASIM_TESTS_ORACLE_SHIM_CUDA_H
#define ASIM_TESTS_ORACLE_SHIM_CUDA_H
#include "tests/oracle/shim/cuda_runtime_api.h"
#endif
