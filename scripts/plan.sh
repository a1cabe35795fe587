#!/bin/sh
# Logs what the pipeline will cost here, at the end of its first stage. The run goes on whatever becomes of it.
# GNN_ENCODER_PLAN=no leaves it out.
if [ "${GNN_ENCODER_PLAN:-yes}" != no ]; then
    scripts/python -m gnn_encoder.cli plan --brief || true
fi
