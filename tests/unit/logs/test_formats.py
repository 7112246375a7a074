"""Every format reads what its scripts write; what cannot be read is never guessed."""

from __future__ import annotations

import re
import statistics

import pytest
import sample_logs as samples
from logs import reading, records

PATTERN = r"it (?P<step>\d+) \| (?P<step_time>\S+) ms \| (?P<samples>\S+) images"


@pytest.mark.parametrize(
    ("format_", "log", "steps", "figure", "median", "unit"),
    [
        ("pytorch_examples", samples.pytorch_examples(), (11, 61), "step_s", 0.160, None),
        ("gluon", samples.gluon(), (9, 59), "throughput", 1035.0, "samples"),
        ("oneflow", samples.oneflow(), (10, 60), "throughput", 3935.891, "samples"),
        ("oneflow", samples.oneflow_bert(), (9, 59), "throughput", 165.896, "samples"),
        ("paddle", samples.paddle_clas(), (1262, 1312), "throughput", 304.84145, "images"),
        ("paddle", samples.paddle_nlp(), (10, 60), "throughput", 235.0, "sequences"),
        ("paddle", samples.paddle_detection(), (10, 60), "throughput", 3.35, "images"),
        ("paddle", samples.paddle_clas_static(), (10, 60), "throughput", 135.5, "images"),
        ("paddle", samples.paddle_ocr(), (10, 60), "throughput", 185.39943, "samples"),
        ("paddle", samples.paddle_models(), (10, 60), "throughput", 975.32917, "images"),
        ("gluon", samples.gluon_by_metric(), (10, 60), "throughput", 1035.38, "samples"),
        ("mlperf", samples.mlperf_steps(), (10, 60), "throughput", 735.0, "samples"),
        ("dllogger", samples.dllogger(), (10, 60), "throughput", 2335.0, "images"),
        ("dllogger", samples.dllogger_text(), (10, 60), "throughput", 175.5, "seq"),
        ("dllogger", samples.dllogger_pairs(), (10, 60), "throughput", 2835.142978189404, "images"),
        ("dllogger", samples.dllogger_mxnet(), (10, 60), "throughput", 1335.5, "images"),
        ("tensorflow", samples.tensorflow_slim(), (10, 60), "step_s", 16.535, None),
        ("mlperf", samples.mlperf_epochs(), (10, 60), "step_s", 0.40035, "samples"),
        ("mlperf", samples.mlperf_tracked(), (10, 60), "throughput", 14035.0, "samples"),
        ("tensorflow", samples.tensorflow(), (0, 60), "step_s", 0.135, "examples"),
        ("tensorflow", samples.tensorflow_rates(), (None, None), "throughput", 11.5, "examples"),
        ("keras", samples.keras(), (10, 60), "step_s", 0.055, None),
        ("keras", samples.keras3(), (10, 60), "step_s", 0.055, None),
        ("regex", samples.regex(), (10, 60), "step_s", 0.135, None),
    ],
)
def test_reads_a_log(format_, log, steps, figure, median, unit):
    found = reading.read(format_, log, {"pattern": PATTERN, "time_unit": "ms"})
    assert (found.records[0].step, found.records[-1].step) == steps
    values = [getattr(record, figure) for record in found.records]
    assert statistics.median(v for v in values if v is not None) == pytest.approx(median)
    assert found.unit == unit
    assert found.left_out == {}


def lines_of(log: str) -> list[str]:
    return log.splitlines(keepends=True)


class TestWhatIsRefused:
    @pytest.mark.parametrize("format_", reading.names())
    @pytest.mark.parametrize("text", ["", "Killed\n", "\x00\xff garbage \x1b[31m\r\b\n" * 30])
    def test_a_log_without_a_step(self, format_, text):
        with pytest.raises(reading.LogError, match="no line of the log states a step"):
            reading.read(format_, text, {"pattern": PATTERN})

    @pytest.mark.parametrize(
        ("format_", "log"),
        [
            ("pytorch_examples", samples.pytorch_examples()),
            ("gluon", samples.gluon()),
            ("oneflow", samples.oneflow()),
            ("paddle", samples.paddle_nlp()),
            ("dllogger", samples.dllogger()),
            ("mlperf", samples.mlperf_tracked()),
            ("tensorflow", samples.tensorflow()),
            ("keras", samples.keras3()),
        ],
    )
    def test_lines_of_two_ranks_in_each_other(self, format_, log):
        mixed = "".join(line + line for line in lines_of(log))
        with pytest.raises(reading.LogError, match="several processes or several runs"):
            reading.read(format_, mixed)

    def test_two_runs_in_one_log(self):
        with pytest.raises(reading.LogError, match="states step 11 after step 61 on line 6"):
            reading.read("pytorch_examples", samples.pytorch_examples() * 2)

    @pytest.mark.parametrize("tags", [("[1,0]<stdout>:", "[1,1]<stdout>:"), ("0: ", "1: ")])
    def test_lines_that_begin_with_several_ranks(self, tags):
        log = samples.tensorflow_rates()
        mixed = "".join(tags[n // 4 % 2] + line for n, line in enumerate(lines_of(log)))
        with pytest.raises(reading.LogError, match="lines of several processes are mixed"):
            reading.read("tensorflow", mixed)

    def test_pieces_of_lines_in_each_other(self):
        log = samples.pytorch_examples().replace("Time", "TiEpoch: [0][   11/5005]\tTime")
        with pytest.raises(reading.LogError, match=r"6 of 6 lines .*damaged: 6"):
            reading.read("pytorch_examples", log)

    def test_an_epoch_of_two_lengths(self):
        log = samples.paddle_clas() + samples.paddle_clas().replace("/1252]", "/1251]")
        with pytest.raises(reading.LogError, match="counts 1251 steps in an epoch, but others"):
            reading.read("paddle", log)

    def test_a_step_beyond_the_epoch(self):
        with pytest.raises(reading.LogError, match="states step 60 of 55"):
            reading.read("paddle", samples.paddle_clas().replace("/1252]", "/55]"))

    def test_two_units(self):
        log = samples.gluon() + "Epoch[1] Batch [9]\tSpeed: 1.0 tokens/sec\n"
        with pytest.raises(reading.LogError, match="several units: samples, tokens"):
            reading.read("gluon", log)

    @pytest.mark.parametrize("pattern", ["(", "step (?P<step>.*)", "(?P<throughput>.) (?P<x>.)"])
    def test_a_pattern_that_cannot_read(self, pattern):
        with pytest.raises(reading.LogError, match="pattern: "):
            reading.read("regex", samples.regex(), {"pattern": pattern})

    def test_a_value_of_another_shape(self):
        log = re.sub(r'"time_ms": \d+', '"time_ms": []', samples.mlperf_epochs())
        with pytest.raises(reading.LogError, match="a line is not what mlperf writes: unsupported"):
            reading.read("mlperf", log)

    def test_a_step_of_thousands_of_digits_is_damage(self):
        log = samples.oneflow().replace("iter 10,", f"iter {'9' * 5000},")
        assert reading.read("oneflow", log).left_out == {records.DAMAGED: 1}

    def test_an_unknown_format(self):
        with pytest.raises(reading.LogError, match="found format 'x'; expected one of deepspeed, "):
            reading.read("x", "")

    def test_a_figure_without_a_unit(self):
        log = samples.paddle_nlp().replace(" sequences/sec", "")
        with pytest.raises(reading.LogError, match="without a unit: 6"):
            reading.read("paddle", log)
        assert reading.read("paddle", log, {"unit": "sequences"}).unit == "sequences"

    def test_a_duration_without_a_unit(self):
        with pytest.raises(reading.LogError, match="without a unit: 6"):
            reading.read("regex", samples.regex(), {"pattern": PATTERN})


class TestWhatIsCounted:
    @pytest.mark.parametrize(
        ("value", "why"),
        [
            ("nan", records.NOT_POSITIVE),
            ("-1065.0", records.NOT_POSITIVE),
            ("0.0", records.NOT_POSITIVE),
            ("inf", records.NOT_POSITIVE),
            ("1e9", records.FAR_OFF),
            ("10.3.4", records.DAMAGED),
        ],
    )
    def test_a_figure_that_is_none(self, value, why):
        found = reading.read("gluon", samples.gluon().replace("1040.000000", value))
        assert found.left_out == {why: 1}
        assert value not in [str(record.throughput) for record in found.records]

    def test_the_last_line_where_it_is_cut_off(self):
        whole = samples.oneflow()
        for cut in range(1, 90):
            found = reading.read("oneflow", whole[:-cut])
            assert len(found.records) == 5
            assert set(found.left_out) <= {reading.CUT_OFF}

    def test_samples_that_contradict_speed_and_duration(self):
        log = samples.paddle_nlp().replace("avg_samples: 32.0", "avg_samples: 64.0", 1)
        assert reading.read("paddle", log).left_out == {records.CONTRADICTS: 1}

    def test_many_are_an_error(self):
        log = samples.gluon().replace("1040.000000", "nan").replace("1050.000000", "nan")
        with pytest.raises(reading.LogError, match=r"2 of 6 lines .*not a positive number: 2"):
            reading.read("gluon", log)


class TestSteps:
    def test_are_counted_over_epochs(self):
        second = samples.pytorch_examples().replace("[0]", "[1]")
        found = reading.read("pytorch_examples", samples.pytorch_examples() + second)
        assert [r.step for r in found.records[5:7]] == [61, 5005 + 11]

    def test_between_epochs_of_unknown_length_are_not_counted(self):
        found = reading.read(
            "gluon", samples.gluon() + samples.gluon().replace("Epoch[0]", "Epoch[1]")
        )
        assert [r.segment for r in found.records] == [0] * 6 + [1] * 6

    def test_of_the_warm_up_are_left_out(self):
        found = reading.read("oneflow", samples.oneflow())
        assert [r.step for r in found.warmed(20)] == [30, 40, 50, 60]

    def test_of_a_resumed_training_begin_an_interval_before_its_first_line(self):
        log = samples.oneflow().replace("iter ", "iter 70")
        warmed = reading.read("oneflow", log).warmed(20)
        assert [r.step for r in warmed] == [7030, 7040, 7050, 7060]

    def test_without_a_warm_up_are_all_kept_however_far_apart_they_lie(self):
        lines = (
            f':::MLLOG {{"time_ms": 1, "key": "tracked_stats", "value": {{"throughput": 400.0}}, '
            f'"metadata": {{"step": {step}}}}}\n'
            for step in (127, 244, 390)
        )
        found = reading.read("mlperf", "".join(lines))
        assert [r.step for r in found.warmed(0)] == [127, 244, 390]

    def test_may_be_stated_for_a_log_that_numbers_none(self):
        found = reading.read("tensorflow", samples.tensorflow_rates(), {"every": 100})
        assert [r.step for r in found.records] == [100, 200, 300, 400, 500, 600]
