"""The processes of one node for Fluid: what its launchers set, without them.

(They also write the whole environment into log files.)
"""

from apis.paddle.launch import collective_or_served, parameter_server
from base_launch import each_with

processes = each_with(collective_or_served(parameter_server))
