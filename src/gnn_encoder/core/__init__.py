"""What every stage depends on: parameters, paths, schemas, storage, errors, processes. A change here reruns them all."""
