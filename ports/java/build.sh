#!/bin/sh
# Compiles the port into build/qwen3-port.jar, or into the folder that it is given. On Debian it needs
#     apt-get install openjdk-17-jdk-headless protobuf-compiler libprotobuf-java
# Elsewhere `mvn package` does the same, or PROTOBUF_JAR names a protobuf-java that fits the protoc on the PATH.
set -eu
cd "$(dirname "$0")"
jar=${PROTOBUF_JAR:-/usr/share/java/protobuf.jar}
build=${1:-build}
rm -rf "$build/generated" "$build/classes"
mkdir -p "$build/generated" "$build/classes"
protoc -I ../../golden --java_out="$build/generated" golden.proto
cp -L "$jar" "$build/protobuf.jar"
compile() {
    find "$1" -name '*.java' >"$build/sources"
    shift
    # javac ends before optimised code would pay: half the time
    javac -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC --release 17 -encoding UTF-8 -cp "$jar:$build/classes" \
        -d "$build/classes" "$@" "@$build/sources"
}
compile "$build/generated" -nowarn
compile src/main/java -Xlint:all -Werror
printf 'Main-Class: qwen3.port.Main\nClass-Path: protobuf.jar\n' >"$build/manifest"
jar --create --file "$build/qwen3-port.jar" --manifest "$build/manifest" -C "$build/classes" .
