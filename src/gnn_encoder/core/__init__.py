"""What every stage stands on: parameters, places, schemas, storage, errors, processes. A change here reruns all."""
