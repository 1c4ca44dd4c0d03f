// Launches the kernels of the suite on a GPU, under compute-sanitizer: driver LIST NAME...
// A line of LIST: name cubin entry gx gy gz bx by bz dynamic_shared arguments... (in:N out:N zero:N fresh:N floats, i:V, null).
// Only the driver API is used, so that each kernel is the very cubin that was compiled. Exit code 1: a call failed.
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

static bool failed = false;

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    const char *name = "?";
    cuGetErrorName(result, &name);
    std::printf("failed: %s: %s\n", what, name);
    failed = true;
}

static void launch(std::istringstream &line, const std::string &folder)
{
    std::string cubin, entry, word;
    unsigned g[3], b[3], shared;
    line >> cubin >> entry >> g[0] >> g[1] >> g[2] >> b[0] >> b[1] >> b[2] >> shared;
    CUmodule module;
    CUfunction function;
    check(cuModuleLoad(&module, (folder + "/" + cubin).c_str()), "load");
    check(cuModuleGetFunction(&function, module, entry.c_str()), "function");
    std::vector<unsigned long long> values;
    std::vector<CUdeviceptr> buffers;
    while (line >> word) {
        const std::string kind = word.substr(0, word.find(':'));
        const long long number = word.find(':') == std::string::npos ? 0 : std::atoll(word.c_str() + word.find(':') + 1);
        if (kind == "i" || kind == "null") {
            values.push_back((unsigned long long)number);
            continue;
        }
        CUdeviceptr buffer;
        check(cuMemAlloc(&buffer, number * 4), "allocate");
        if (kind == "in") {
            std::vector<float> data(number);
            for (long long i = 0; i < number; ++i)
                data[i] = (float)(i % 13 - 6) + 0.5f;
            check(cuMemcpyHtoD(buffer, data.data(), number * 4), "copy");
        } else if (kind == "out" || kind == "zero") {
            check(cuMemsetD32(buffer, kind == "out" ? 0x7fffffff : 0, number), "fill");
        }
        buffers.push_back(buffer);
        values.push_back(buffer);
    }
    std::vector<void *> pointers;
    for (auto &value : values)
        pointers.push_back(&value);
    check(cuLaunchKernel(function, g[0], g[1], g[2], b[0], b[1], b[2], shared, nullptr, pointers.data(), nullptr), "launch");
    check(cuCtxSynchronize(), "synchronize");
    if (failed)
        return;
    for (CUdeviceptr buffer : buffers)
        cuMemFree(buffer);
    cuModuleUnload(module);
}

int main(int count, char **words)
{
    const std::string list = words[1], folder = list.substr(0, list.find_last_of('/'));
    const std::set<std::string> chosen(words + 2, words + count);
    check(cuInit(0), "init");
    CUdevice device;
    CUcontext context;
    check(cuDeviceGet(&device, 0), "device");
    check(cuDevicePrimaryCtxRetain(&context, device), "context");
    check(cuCtxSetCurrent(context), "context");
    std::ifstream file(list);
    for (std::string text; !failed && std::getline(file, text);) {
        std::istringstream line(text);
        std::string name;
        line >> name;
        if (!chosen.count(name))
            continue;
        std::printf("case: %s\n", name.c_str());
        std::fflush(stdout);
        launch(line, folder);
    }
    return failed;
}
