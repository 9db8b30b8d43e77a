#include "kernels/backend.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "kernels/host/cpu_backend.h"

using namespace comera::kernels;

TEST_CASE("the automatic choice is one of the instruction sets of this machine") {
  const char* error = nullptr;
  const Backend* backend = cpu_backend("auto", &error);
  REQUIRE(backend);
  CHECK(std::string(backend->name) == "cpu");
  CHECK(cpu_backend(backend->variant, &error) == backend);
}

TEST_CASE("an unknown instruction set is rejected with a list of the known ones") {
  const char* error = nullptr;
  CHECK(cpu_backend("v5", &error) == nullptr);
  REQUIRE(error);
  CHECK(std::strstr(error, "auto, v3, v4, v4bf16 or v4amx"));
}

TEST_CASE("the description contains the BLAS libraries and their core types") {
  const std::string text = cpu_blas_description();
  CHECK(text.find("OpenBLAS") != std::string::npos);
  CHECK(text.find("libxsmm") != std::string::npos);
}

TEST_CASE("the large products use wide vectors on machines that have them") {
  if (!__builtin_cpu_supports("x86-64-v4")) return;
  const std::string text = cpu_blas_description();
  CHECK((text.find("(Cooperlake)") != std::string::npos || text.find("(SkylakeX)") != std::string::npos));
}
