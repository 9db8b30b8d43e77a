# Everyday commands. CMake builds the program (CMakePresets.json has debug, asan and tsan builds); this file combines
# commands.
#
#   make             build/comera, with optimisation
#   make quickstart  install what is missing, build, train on real text and compare the models
#   make test        install what is missing, build, run the tests
#   make check       make test with the tests that it skips where nothing changed (scripts/recent.py), and the static
#                    checks over every file
#   make cuda        build/comera and build/libcomera_cuda.so; fetches the CUDA toolkit from PyPI if there is no nvcc
#   make package     a tarball of the program and, if it was built, the CUDA backend; runs from the folder where it is
#                    unpacked; TESTS=1 adds the files of check-gpu. ARCHS=90a builds the backend for one GPU first
#                    (for several: ARCHS="80 90a"); also with make cuda and make check-gpu
#   make deb         a Debian package of the program, with its manual and completion
#   make check-gpu   the tests and benches that need a GPU, from this build; writes build/gpu-report.md
#   make interop     reads comera's files with transformers, sentence-transformers and optimum (needs COMERA_DATA,
#                    fetches gigabytes)
#   make install     PREFIX=/usr/local; the program, its manual pages and its shell completion
#   make docs        docs/options, generated from the program's option tables
#   make format      formats every source file by .clang-format
#   make clean
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
BUILD := build
ARCHS ?=
empty :=
space := $(empty) $(empty)
# ccache takes the dependencies from the compiler and needs no preprocessing of its own; the second line lets it store
# precompiled headers, and find objects that were compiled under another LANG (tests/recipes/first_command.sh).
export CCACHE_DEPEND := 1
export CCACHE_SLOPPINESS := pch_defines,time_macros,locale

.PHONY: all comera configure cuda package deb check-gpu quickstart test check interop install docs format clean
.NOTPARALLEL:

all: comera

comera: configure
	cmake --build $(BUILD) -j $(JOBS) --target comera

configure:
	@third_party/install.sh --list build || { echo "Install them with: third_party/install.sh build"; exit 1; }
	@cmake --preset release --log-level=NOTICE

cuda:
	@third_party/install.sh build cuda
	@third_party/cuda.sh $(BUILD)/third_party/cuda
	@cmake --preset release --log-level=NOTICE -DCOMERA_CUDA=ON \
	  -DCMAKE_CUDA_COMPILER="$$(third_party/cuda.sh --nvcc $(BUILD)/third_party/cuda)" \
	  $(if $(ARCHS),-DCOMERA_CUDA_ARCHITECTURES="$(subst $(space),;,$(strip $(ARCHS)))")
	cmake --build $(BUILD) -j $(JOBS) --target comera comera_cuda

quickstart:
	@third_party/install.sh build recipes
	@$(MAKE) --no-print-directory comera
	recipes/quickstart.sh

test:
	@third_party/install.sh build test
	@cmake --preset release --log-level=NOTICE -DCOMERA_TESTS=ON
	cmake --build $(BUILD) -j $(JOBS)
	cd $(BUILD) && ctest -j $(JOBS) --output-on-failure

check: export COMERA_ALL := 1
check: test
	scripts/tidy.py --all $(BUILD)

interop: comera
	tests/interop/run.sh $(BUILD)

package: $(if $(ARCHS),cuda,comera)
	$(if $(TESTS),third_party/install.sh build test && cmake --preset release --log-level=NOTICE -DCOMERA_TESTS=ON && \
	  cmake --build $(BUILD) -j $(JOBS) --target test_kernels test_models)
	! grep -q '^COMERA_CUDA:BOOL=ON' $(BUILD)/CMakeCache.txt || \
	  cmake --build $(BUILD) -j $(JOBS) --target comera_cuda $(if $(TESTS),gpu_timeline)
	TESTS=$(TESTS) scripts/package.sh $(BUILD)

deb: comera
	scripts/package_deb.sh $(BUILD)

check-gpu: cuda
	@third_party/install.sh build test
	@cmake --preset release --log-level=NOTICE -DCOMERA_TESTS=ON
	cmake --build $(BUILD) -j $(JOBS) --target test_kernels test_models gpu_timeline
	COMERA_BUILD=$(BUILD) scripts/check_gpu.sh $(BUILD)

install: comera
	cmake --install $(BUILD) --prefix $(PREFIX)

docs: comera
	$(BUILD)/comera manual markdown -o docs/options

format:
	scripts/check_format.sh --fix

clean:
	rm -rf $(BUILD)
