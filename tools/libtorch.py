"""Makes a LibTorch for C++ of PyTorch's Python packages: headers, the libraries that use the processor, a TorchConfig.cmake.

    python3 tools/libtorch.py WHEELS FOLDER

WHEELS holds the packages as pip downloads them: torch, nvidia-cuda-runtime and nvidia-cuda-cupti. PyTorch's package is one for
GPUs, and its own TorchConfig.cmake ends where no CUDA toolkit is installed; its libtorch_cpu.so needs two libraries of
NVIDIA's to be loaded, but no GPU. `./dev quickstart --libtorch=pip` calls this.
"""

import pathlib
import re
import shutil
import sys
import zipfile

CONFIG = """# LibTorch {version} without CUDA, of PyTorch's Python package.
get_filename_component(TORCH_INSTALL_PREFIX "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
set(TORCH_INCLUDE_DIRS ${{TORCH_INSTALL_PREFIX}}/include ${{TORCH_INSTALL_PREFIX}}/include/torch/csrc/api/include)
set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")
if(NOT TARGET torch)
  foreach(library IN ITEMS c10 torch_cpu)
    add_library(${{library}} SHARED IMPORTED)
    set_target_properties(${{library}} PROPERTIES IMPORTED_LOCATION ${{TORCH_INSTALL_PREFIX}}/lib/lib${{library}}.so
      INTERFACE_INCLUDE_DIRECTORIES "${{TORCH_INCLUDE_DIRS}}")
  endforeach()
  # Libraries register operators when they are loaded: a program must load torch_cpu although it names nothing of it.
  add_library(torch_cpu_library INTERFACE IMPORTED)
  target_link_libraries(torch_cpu_library INTERFACE
    "-Wl,--push-state,--no-as-needed,$<TARGET_FILE:torch_cpu>,--pop-state" torch_cpu c10
    "-Wl,-rpath-link,${{TORCH_INSTALL_PREFIX}}/lib")
  foreach(name IN ITEMS torch torch_library)
    add_library(${{name}} INTERFACE IMPORTED)
    target_link_libraries(${{name}} INTERFACE torch_cpu_library)
    target_compile_features(${{name}} INTERFACE cxx_std_20)
  endforeach()
endif()
set(TORCH_LIBRARIES torch)
set(TORCH_FOUND TRUE)
"""

VERSION = """set(PACKAGE_VERSION "{version}")
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""

# What is taken of the packages, and where it goes.
HEADERS = re.compile(r"torch/include/(.*)")
LIBRARIES = re.compile(r"(?:torch/lib|nvidia/[^/]+/lib)/(libc10\.so|libtorch_cpu\.so|libgomp\.so\.1|libgfortran\.so\.5|"
                       r"libcudart\.so\.\d+|libcupti\.so\.\d+)")


def place(name):
    for pattern, folder in ((HEADERS, "include"), (LIBRARIES, "lib")):
        found = pattern.fullmatch(name)
        if found and not name.endswith("/"):
            return pathlib.Path(folder) / found.group(1)
    return None


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    wheels, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    version = None
    taken = set()
    for wheel in sorted(wheels.glob("*.whl")):
        if wheel.name.startswith("torch-"):
            version = wheel.name.split("-")[1].split("+")[0]
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                target = place(name)
                if target is None or ".." in target.parts:
                    continue
                taken.add(target.name)
                (folder / target).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, open(folder / target, "wb") as written:
                    shutil.copyfileobj(source, written)
    missing = {"libc10.so", "libtorch_cpu.so"} - taken
    if version is None or missing:
        sys.exit(f"error: the packages in {wheels} lack {', '.join(sorted(missing)) or 'torch itself'}\n"
                 "hint: download them with pip from tools/peers/libtorch.txt")
    config = folder / "share/cmake/Torch"
    config.mkdir(parents=True, exist_ok=True)
    (config / "TorchConfig.cmake").write_text(CONFIG.format(version=version))
    (config / "TorchConfigVersion.cmake").write_text(VERSION.format(version=version))
    print(f"LibTorch {version} in {folder}")


if __name__ == "__main__":
    main()
