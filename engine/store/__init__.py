"""The HDF5 store: L2-normalised rows, ids, origins, completion."""
