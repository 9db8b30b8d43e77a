# With both options GCC vectorises the loops over levels: it may then compute both sides of a condition.
target_compile_options(comera_quant PRIVATE $<$<CONFIG:Release>:-O3> -fno-trapping-math)
