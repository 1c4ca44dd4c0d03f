// clock() is built into NVRTC; the other functions are the host's.
#pragma once
