#!/bin/sh
# Compiles the port into build/qwen3-port, or into the folder that it is given. On Debian it needs
#     apt-get install g++ protobuf-compiler libprotobuf-dev
# CXXFLAGS and LIBS may say otherwise elsewhere; newer protobufs than Debian's link by `pkg-config --libs protobuf`.
set -eu
cd "$(dirname "$0")"
build=${1:-build}
mkdir -p "$build"
build=$(cd "$build" && pwd)
protoc -I ../../golden --cpp_out="$build" golden.proto
flags="-std=c++17 ${CXXFLAGS:--O2} -pthread -Wall -Wextra -Werror -isystem $build"
g++ $flags -O0 -c "$build/golden.pb.cc" -o "$build/golden.pb.cc.o" & # generated: moves bytes, however it is compiled
g++ $flags -x c++-header "$build/golden.pb.h" -o "$build/golden.pb.h.gch" # every file would parse it again
wait $!
flags="$flags -include golden.pb.h"
printf '%s\n' src/*.cpp | xargs -P 2 -I{} sh -c "g++ $flags -c {} -o $build/\$(basename {}).o"
g++ -pthread "$build"/*.o ${LIBS:--lprotobuf} -o "$build/qwen3-port"
g++ $flags -I . compare.cpp "$build/golden.pb.cc.o" "$build/sha256.cpp.o" ${LIBS:--lprotobuf} -o "$build/qwen3-compare"  # a file called compare would stand in the way of <compare>
