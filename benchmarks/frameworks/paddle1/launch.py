"""The processes of one node for Fluid, with the variables that its launchers would set.

(Its launchers are not used: they write the whole environment into log files.)
"""

from apis.paddle.launch import collective_or_served, parameter_server
from base_launch import each_with

processes = each_with(collective_or_served(parameter_server))
