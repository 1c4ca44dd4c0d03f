// For the host alone.
#pragma once
