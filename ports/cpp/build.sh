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
compile="g++ -std=c++17 ${CXXFLAGS:--O2} -pthread -Wall -Wextra -Werror -isystem $build -I ."
$compile -O0 -c "$build/golden.pb.cc" -o "$build/golden.pb.cc.o" & # generated: moves bytes, however it is compiled
printf '#include "%s"\n' src/*.cpp >"$build/all.cpp"               # one unit: the headers are most of the work
$compile -c "$build/all.cpp" -o "$build/all.cpp.o"
wait $!
libs=${LIBS:--lprotobuf}
g++ -pthread "$build/all.cpp.o" "$build/golden.pb.cc.o" $libs -o "$build/qwen3-port"
# a file called compare would stand in the way of <compare>
$compile compare.cpp src/sha256.cpp "$build/golden.pb.cc.o" $libs -o "$build/qwen3-compare"
