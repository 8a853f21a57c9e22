"""Write a checkpoint as protobuf files for ports, make it again of these, or make an encoder–decoder of it."""
