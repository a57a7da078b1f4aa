/* The same as cuda_runtime_api.h beside it. */
#ifndef ORACLE_SHIM_CUDA_H
#define ORACLE_SHIM_CUDA_H
#include "cuda_runtime_api.h"
#endif
