"""The processes of `meridian experiment mfs-testbed --live`: one host each, on real sockets."""
