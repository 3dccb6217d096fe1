"""Makes a LibTorch for C++ of PyTorch's Python packages: headers, the libraries that use the processor, a TorchConfig.cmake.

    python3 tools/libtorch.py WHEELS FOLDER
    python3 tools/libtorch.py SITE_PACKAGES FOLDER

WHEELS holds the packages as pip downloads them: torch, nvidia-cuda-runtime and nvidia-cuda-cupti. PyTorch's package is one for
GPUs, and its own TorchConfig.cmake ends where no CUDA toolkit is installed; its libtorch_cpu.so needs two libraries of
NVIDIA's to be loaded, but no GPU. `./dev quickstart --libtorch=pip` calls this.
With the folder of installed packages, where PyTorch is the folder torch, nothing is copied: the TorchConfig.cmake names that
folder. A program and the Python of these packages then have the same LibTorch. `./dev check xla` calls this.
"""

import pathlib
import re
import shutil
import sys
import zipfile

CONFIG = """# LibTorch {version} without CUDA, of PyTorch's Python package.
get_filename_component(TORCH_INSTALL_PREFIX "{prefix}" ABSOLUTE)
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
    "-Wl,-rpath-link,{libraries}")
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


def write_config(folder, **values):
    config = folder / "share/cmake/Torch"
    config.mkdir(parents=True, exist_ok=True)
    (config / "TorchConfig.cmake").write_text(CONFIG.format(**values))
    (config / "TorchConfigVersion.cmake").write_text(VERSION.format(version=values["version"]))
    print(f"LibTorch {values['version']} in {folder}")


def name_installed(site, folder):
    """LibTorch of the packages in site, as they are installed."""
    version = re.search(r"__version__ = '([0-9.]+)", (site / "torch/version.py").read_text()).group(1)
    libraries = [site / "torch/lib", site / "nvidia/cuda_runtime/lib", site / "nvidia/cuda_cupti/lib"]
    write_config(folder, version=version, prefix=site / "torch", libraries=":".join(map(str, libraries)))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    wheels, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if (wheels / "torch").is_dir():
        name_installed(wheels.resolve(), folder)
        return
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
    write_config(folder, version=version, prefix="${CMAKE_CURRENT_LIST_DIR}/../../..",
                 libraries="${TORCH_INSTALL_PREFIX}/lib")


if __name__ == "__main__":
    main()
