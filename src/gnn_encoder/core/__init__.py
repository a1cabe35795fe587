"""What every stage uses: parameters, paths, schemas, storage, errors, processes. A change here reruns every stage."""
