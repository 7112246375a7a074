"""A trainer of PaddlePaddle 1.8 that slept through its only notification; prints what wakes it."""

import ctypes
import json
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
from frameworks.paddle1 import lost_wakeup
from paddle import fluid
from paddle.fluid import core
from paddle.fluid.communicator import Communicator
from paddle.fluid.transpiler.distribute_transpiler import DistributedMode

CLASS = "_ZN6paddle9operators11distributed21HalfAsyncCommunicator"
FLAGS = {
    "communicator_max_merge_var_num": "1",
    "communicator_send_queue_size": "1",
    "communicator_thread_pool_size": "1",
    "communicator_send_wait_times": "1",
}

communicator = Communicator(fluid.Program(), DistributedMode.HALF_ASYNC, envs=FLAGS)
communicator.start()
library = ctypes.CDLL(core.__file__)
this = ctypes.c_void_p.in_dll(library, lost_wakeup.COMMUNICATOR)
library[CLASS + "19BarrierTriggerResetEi"](this, 1000)  # its own thread exchanges nothing

trainer = threading.Thread(target=library[CLASS + "7BarrierEv"], args=(this,), daemon=True)
trainer.start()
# The counter lies behind the condition variable, in the second instruction of BarrierWeakUp.
counter = ctypes.c_int64.from_address(lost_wakeup.condition() + 0x38)
while counter.value != 1:
    time.sleep(0.01)
time.sleep(0.5)
counter.value = 0  # as BarrierWeakUp does, and the notification is missed
trainer.join(3)
sleeps = trainer.is_alive()
lost_wakeup.keep_awake(communicator)
trainer.join(10)
print(json.dumps({"sleeps": sleeps, "woken": not trainer.is_alive()}))
communicator.stop()
