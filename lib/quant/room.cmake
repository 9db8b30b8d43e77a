# Loops over levels have vectors where the compiler may compute both sides of a choice.
target_compile_options(comera_quant PRIVATE $<$<CONFIG:Release>:-O3> -fno-trapping-math)
