"""What a pass on a cluster is predicted to take, and the command that prints it."""

import pytest

from manyclass.cli.parser import main
from manyclass.dask.costs import SPEEDS, WORKERS, Job, by_rows, by_rows_and_classes, stops_at


def test_predicted_costs_divide_work_and_memory_and_say_where_more_workers_stop_to_help():
    job = Job(10**8, 10**5, 10**6, 50)
    for n in WORKERS:
        rows, blocks = by_rows(job, n, 10, 16), by_rows_and_classes(job, n, 10, 16)
        assert rows.memory == 4 * job.bytes_of_w
        # A block and two pieces of it, of which there are at least four.
        assert job.bytes_of_w / n < blocks.memory <= 1.5 * job.bytes_of_w / n
        assert rows.bytes_moved == pytest.approx(2 * job.bytes_of_w, rel=1 / n + 1e-9)
        assert rows.steps * n == pytest.approx(by_rows(job, 1, 10, 16).steps)
    assert by_rows(job, 1, 10, 16).moved == 0
    assert stops_at(job, "rows", SPEEDS[0], 16) <= stops_at(job, "rows", SPEEDS[1], 16)


def test_the_command_plan_prints_a_line_for_each_number_of_workers(capsys):
    assert main(["plan", "--rows", "1e9", "--classes", "1e7"]) == 0
    told = capsys.readouterr().out
    assert "W takes 4.0 TB" in told
    assert told.count("rows and classes") == 2 * len(WORKERS)
    assert main(["plan", "--rows", "0", "--classes", "5"]) == 2
    assert "--rows is 0.0" in capsys.readouterr().err
