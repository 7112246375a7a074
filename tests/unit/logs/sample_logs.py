"""Logs in the formats of the scripts that write them, from step 10 to 60, every tenth."""

from __future__ import annotations

import json

STEPS = range(10, 61, 10)


def pytorch_examples() -> str:
    return "".join(
        f"Epoch: [0][{i + 1:5d}/5005]\tTime  0.{125 + i:03d} (  0.140)\tData  0.001 (  0.010)\t"
        f"Loss 6.9e+00 (7.0e+00)\tAcc@1   0.00 (  0.10)\n"
        for i in STEPS
    )


def gluon() -> str:
    return "".join(
        f"INFO:root:Epoch[0] Batch [{i - 1}]\tSpeed: {1000 + i:.6f} samples/sec\t"
        f"accuracy=0.001\tlr=0.1\n"
        for i in STEPS
    )


def oneflow() -> str:
    return "batch_size_per_device = 128\n" + "".join(
        f"train: epoch 0, iter {i}, loss: 7.087004, top_1: 0.000000, top_k: 0.000000, "
        f"samples/s: {3900 + i}.891 15979339{i}.9863544\n"
        for i in STEPS
    )


def oneflow_bert() -> str:
    return "".join(
        f"step: {i - 1}, total_loss: 9.725, mlm_loss: 8.960, nsp_loss: 0.766, "
        f"throughput: {130 + i}.896 1598056519.8844702\n"
        for i in STEPS
    )


def paddle_clas() -> str:
    return "".join(
        f"[2022/04/30 11:30:30] ppcls INFO: [Train][Epoch 1/300][Iter: {i}/1252]lr: 0.00403, "
        f"CELoss: 6.97696, loss: 6.97696, batch_cost: 0.94871s, reader_cost: 0.22499, "
        f"ips: {269 + i}.84145 images/sec, eta: 4 days, 2:57:18\n"
        for i in STEPS
    ) + (
        "[2022/04/30 11:31:30] ppcls INFO: [Eval][Epoch 1][Iter: 0/49]CELoss: 7.0, loss: 7.0, "
        "batch_cost: 3.9s, reader_cost: 3.8, ips: 64.1 images/sec\n"
        "[2022/04/30 11:31:40] ppcls INFO: [Train][Epoch 1/300][Avg]CELoss: 6.9, avg_ips: 1 s\n"
    )


def paddle_nlp() -> str:
    return "".join(
        f"[2021-05-12 08:00:00,000] [    INFO] - global step: {i}, epoch: 0, batch: {i - 1}, "
        f"loss: 9.5, avg_reader_cost: 0.00010 sec, avg_batch_cost: {32 / (200 + i):.5f} sec, "
        f"avg_samples: 32.00000, ips: {200 + i}.00000 sequences/sec\n"
        for i in STEPS
    )


def paddle_detection() -> str:
    return "".join(
        f"[08/01 10:00:00] ppdet.engine INFO: Epoch: [0] [ {i}/7329] learning_rate: 0.0004 "
        f"loss_rpn_cls: 0.69 eta: 1 day, 2:03:04 batch_cost: 0.5000 data_cost: 0.1 "
        f"ips: {3 + i / 100} images/s\n"
        for i in STEPS
    )


def dllogger() -> str:
    stamp = {"timestamp": "1612345678.1", "datetime": "2021-02-03", "elapsedtime": "12.3"}
    rows = [
        {"type": "LOG", "step": "PARAMETER", "data": {"batch_size": 256}},
        {"type": "METADATA", "metric": "train.total_ips", "metadata": {"unit": "images/s"}},
    ]
    rows += [
        {"type": "LOG", "step": [0, i], "data": {"train.loss": 7.0, "train.total_ips": 2300.0 + i}}
        for i in STEPS
    ]
    rows += [
        {"type": "LOG", "step": [0, 3], "data": {"val.total_ips": 9000.0}},
        {"type": "LOG", "step": [0], "data": {"train.total_ips": 2000.0}},
        {"type": "LOG", "step": [], "data": {"train.total_ips": 2000.0}},
    ]
    return "".join("DLLL " + json.dumps({**stamp, **row}) + "\n" for row in rows)


def dllogger_text() -> str:
    return "".join(
        f"DLL 2020-11-16 05:33:09.030756 - Iteration: {i}  throughput_train : {140.5 + i} seq/s  "
        "mlm_loss : 8.9  nsp_loss : 0.7\n"
        for i in STEPS
    )


def mlperf_event(key: str, value: object = None, at_ms: int = 0, **metadata: object) -> str:
    event = {
        "namespace": "",
        "time_ms": 1590000000000 + at_ms,
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": {"file": "train.py", "lineno": 42, **metadata},
    }
    return f":::MLLOG {json.dumps(event)}\n"


def mlperf_epochs() -> str:
    text = mlperf_event("global_batch_size", 64) + mlperf_event("train_samples", 640)
    for epoch in range(1, 7):
        text += mlperf_event("epoch_start", None, epoch * 9000, epoch_num=epoch)
        text += mlperf_event("epoch_stop", None, epoch * 9000 + 4000 + epoch, epoch_num=epoch)
    return text


def mlperf_tracked() -> str:
    return mlperf_event("global_batch_size", 16) + "".join(
        mlperf_event("tracked_stats", {"throughput": 14000.0 + i}, i * 1000, samples_count=i * 16)
        for i in STEPS
    )


def tensorflow() -> str:
    return "INFO:tensorflow:loss = 7.1, step = 0\n" + "".join(
        f"INFO:tensorflow:global_step/sec: {10 / (1 + i / 100):.5f}\n"
        f"INFO:tensorflow:examples/sec: {320 / (1 + i / 100):.3f}\n"
        f"INFO:tensorflow:loss = 6.9, step = {i} ({1 + i / 100:.3f} sec)\n"
        for i in STEPS
    )


def tensorflow_rates() -> str:
    return "".join(
        f"INFO:tensorflow:global_step/sec: {1 + i / 100}\n"
        f"I0904 16:59:44.791337 139815124088640 tpu_estimator.py:2307] global_step/sec: 1.5\n"
        f"INFO:tensorflow:examples/sec: {8 + i / 10}\n"
        f"I0904 16:59:44.791337 139815124088640 tpu_estimator.py:2308] examples/sec: 12.6664\n"
        for i in STEPS
    )


def keras() -> str:
    bars = "".join(
        f"\r {i}/60 [{'=' * (i // 2) + '>':.<30}] - ETA: 3s - loss: 2.3"
        f"\r {i}/60 [{'=' * (i // 2):.<30}] - 1s {20 + i}ms/step - loss: 2.3"
        for i in STEPS
    )
    validated = "\b" * 40 + f" 60/60 [{'=' * 30}] - 9s 81ms/step - loss: 2.3 - val_loss: 2.1\n"
    return "Epoch 1/2\n" + bars + validated + f"2/2 [{'=' * 30}] - 0s 8ms/step\n"


def keras3() -> str:
    return "Epoch 1/2\n" + "".join(
        f"\x1b[1m{i}/60\x1b[0m \x1b[32m━━━━━━━━\x1b[0m\x1b[37m━━\x1b[0m \x1b[1m1s\x1b[0m "
        f"{20 + i}ms/step - accuracy: 0.1 - loss: 2.3\n"
        for i in STEPS
    )


def regex() -> str:
    return "".join(f"it {i} | {100 + i} ms | 32 images\n" for i in STEPS)


def gluon_by_metric() -> str:
    return "".join(
        f"2019-08-19 10:58:12,137 Node[0] Epoch[0] Batch [{i}]     Speed: {1000 + i}.38 samples/sec"
        f"        Train-{metric}={value}\n"
        for i in STEPS
        for metric, value in (("accuracy", 0.001), ("top_k_accuracy_5", 0.005), ("loss", 6.9))
    )


def paddle_clas_static() -> str:
    return "".join(
        f"2020-12-30 06:13:33 INFO: epoch:0   train step:{i}   top1: 0.0000 loss: 11.5920 "
        f"lr: 0.100000, batch_cost: 0.08779 s, reader_cost: 0.00010 s, ips: {100 + i}.5 "
        f"images/sec.\n"
        for i in STEPS
    ) + (
        "2020-12-30 06:13:38 INFO: END epoch:0   train top1: 0.0071 batch_cost: 0.26346 s, "
        "batch_cost_sum: 6.8 s, ips: 121.4 images/sec.\n"
        "2020-12-30 06:13:39 INFO: valid step:10   top1: 0.0625 batch_cost: 0.07791 s, "
        "ips: 409.9 images/sec.\n"
        "2020-12-30 06:13:41 INFO: END valid top1: 0.0127 batch_cost: 0.09155 s, ips: 305.8 "
        "images/sec.\n"
    )


def paddle_ocr() -> str:
    return "".join(
        f"[2020/11/16 11:11:26] root INFO: epoch: [{i // 40}/100], iter: {i}, lr: 0.001000, "
        f"acc: 0.507812, loss: 0.698222, reader_cost: 2.01444 s, batch_cost: 2.29982 s, "
        f"samples: 5120, ips: {150 + i}.39943 samples/s\n"
        for i in STEPS
    )


def paddle_models() -> str:
    return "".join(
        f"INFO:utils.utility:[Pass 0, train batch {i}]   loss 21.68535, lr 0.10000, "
        f"batch_cost 0.13110 sec, reader_cost 0.00069 sec, ips {940 + i}.32917 images/sec\n"
        for i in STEPS
    )


def mlperf_steps() -> str:
    return "".join(
        ":::MLLOG "
        + json.dumps(
            {
                "namespace": "",
                "time_ms": 1664525503285 + 125 * i,
                "event_type": "POINT_IN_TIME",
                "key": "tracked_stats",
                "value": {"time": 0.125, "loss": 2.3, "throughput": 700.0 + i},
                "metadata": {"file": "trainer.py", "lineno": 499, "step": i},
            }
        )
        + "\n"
        for i in STEPS
    )


def dllogger_pairs() -> str:
    return "DLL 2021-03-23 11:48:38.824370 - PARAMETER total_ips : 1 \n" + "".join(
        f"DLL 2021-03-23 11:48:38.824370 - (0, {i}) total_ips : {2800 + i}.142978189404 \n"
        for i in STEPS
    )


def dllogger_mxnet() -> str:
    return (
        "".join(
            f"DLL 2021-03-24 07:42:46.785344 - Epoch: 0 Iteration: {i}  train.loss : 6.9  "
            f"train.ips : {1300 + i}.5  train.lr : 0.1\n"
            for i in STEPS
        )
        + "DLL 2021-03-24 07:43:46.785344 - Epoch: 0  train.ips : 9.5  val.ips : 3.1\n"
    )


def tensorflow_slim() -> str:
    return "INFO:tensorflow:Recording summary at step 0.\n" + "".join(
        f"INFO:tensorflow:global step {i}: loss = 67.3308 (16.{500 + i} sec/step)\n" for i in STEPS
    )
