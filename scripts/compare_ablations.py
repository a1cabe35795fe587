"""Compare the finished ablations of scripts/queue_ablations.py: means over seeds, and paired differences from `full`.

python scripts/compare_ablations.py --seeds 13 14 15           # those of configs/ablations.txt that have run
python scripts/compare_ablations.py full no_gate --seeds 13
"""

from queue_ablations import parser

from gnn_encoder.base.errors import report_errors
from gnn_encoder.evaluate.judge import FULL, ablation_tables, read_ablations, read_experiments
from gnn_encoder.evaluate.tables import markdown
from gnn_encoder.pipeline.params import load_params

if __name__ == "__main__":
    with report_errors():
        options = parser(__doc__)
        options.add_argument("--measure", help="default: evaluate.significance")
        given = options.parse_args()
        names = dict.fromkeys([FULL, *read_ablations(given.file, given.names)])
        values, missing = read_experiments(names, given.seeds)
        for table in ablation_tables(values, given.measure or load_params().evaluate.significance):
            print(f"{markdown(table)}\n")
        if missing:
            print(f"left out, since DVC has no values of them: {', '.join(missing)}")
