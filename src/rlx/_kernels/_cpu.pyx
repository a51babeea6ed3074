"""What this processor can do. Compiled for the baseline, so it runs anywhere."""

cdef extern from *:
    """
    #if defined(__x86_64__)
    static void rlx_cpu_init(void) { __builtin_cpu_init(); }
    static int rlx_has_avx2(void) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
    }
    static int rlx_has_avx512(void) {
        return rlx_has_avx2() && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
    }
    #else
    static void rlx_cpu_init(void) {}
    static int rlx_has_avx2(void) { return 0; }
    static int rlx_has_avx512(void) { return 0; }
    #endif
    """
    void rlx_cpu_init()
    bint rlx_has_avx2()
    bint rlx_has_avx512()


def levels():
    """Names of the ISA levels that this processor runs, weakest first."""
    rlx_cpu_init()
    found = ["baseline"]
    if rlx_has_avx2():
        found.append("avx2")
    if rlx_has_avx512():
        found.append("avx512")
    return found
