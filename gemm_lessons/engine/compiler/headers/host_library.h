// In the place of a C++ header that is the host's (<iostream>): what of the standard library it would bring along.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
