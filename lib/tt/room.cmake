# BLAS and LAPACK, both in OpenBLAS's archive.
target_link_libraries(comera_tt PRIVATE openblas)
