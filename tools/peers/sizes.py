"""What must be installed to train: Muster's Debian packages, Python packages, and all that they depend on.

    python3 tools/peers/sizes.py [PACKAGES]

PACKAGES is the folder with the .deb files of ./dev package (build/release/package). Python packages are those of the
environments of ./dev peers that are there. MB are millions of bytes as installed. What every Debian has (essential
packages and those they depend on) does not count, and neither does Python itself.
"""
import collections
import glob
import os
import re
import subprocess
import sys

PEERS = [("TensorFlow 2.15 with tf.estimator", "tensorflow", "tensorflow-cpu"),
         ("TensorFlow of today, with Keras 3", "today", "tensorflow-cpu"),
         ("PyTorch of today", "today", "torch")]
# Prints the bytes of the files of a package and of all it depends on.
SIZE_OF_PACKAGE = """
import importlib.metadata as metadata, os, re, sys
seen, unread, size = set(), [sys.argv[1]], 0
while unread:
    name = re.sub("[-_.]+", "-", unread.pop()).lower()
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue  # for other systems
    if name in seen:
        continue
    seen.add(name)
    size += sum(os.path.getsize(path) for path in map(package.locate_file, package.files or []) if os.path.isfile(path))
    for line in package.requires or []:
        if "extra ==" not in line:
            unread.append(re.match("[A-Za-z0-9._-]+", line).group())
print(size, len(seen))
"""

Package = collections.namedtuple("Package", "kilobytes depends essential")


def names(depends):
    """The first of each list of choices."""
    return [re.split("[ (:|]", part.strip())[0] for part in depends.split(",") if part.strip()]


def installed():
    form = "${Package}\\t${Installed-Size}\\t${Pre-Depends}, ${Depends}\\t${Essential}\\t${Provides}\\n"
    packages, provided = {}, {}
    for line in subprocess.check_output(["dpkg-query", "-W", "-f", form], text=True).splitlines():
        name, size, depends, essential, provides = line.split("\t")
        packages[name] = Package(int(size or 0), names(depends), essential == "yes")
        for other in names(provides):
            provided.setdefault(other, name)
    return packages, provided


def closure(roots, packages, provided):
    seen, unread = set(), list(roots)
    while unread:
        name = unread.pop()
        name = name if name in packages else provided.get(name, "")
        if name in packages and name not in seen:
            seen.add(name)
            unread += packages[name].depends
    return seen


def row(name, packages, size):
    print(f"| {name} | {packages} | {size / 1e6:,.0f} |")


def print_debian(folder):
    packages, provided = installed()
    base = closure([name for name, package in packages.items() if package.essential], packages, provided)
    own = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.deb"))):
        fields = [subprocess.check_output(["dpkg-deb", "-f", path, field], text=True).strip()
                  for field in ("Package", "Installed-Size", "Depends")]
        own[fields[0]] = Package(int(fields[1]), names(fields[2]), False)
    if not own:
        print(f"Muster is left out: no packages in {folder}; ./dev package makes them.", file=sys.stderr)
        return
    for title, roots in [("Muster, to run programs", [name for name in own if name != "libmuster-dev"]),
                         ("Muster, to build them as well", list(own))]:
        needed = closure(roots, {**packages, **own}, provided) - base
        missing = {name for root in roots for name in own[root].depends} - set(packages) - set(provided) - set(own)
        if missing:
            sys.exit(f"error: not installed here: {', '.join(sorted(missing))}\nhint: ./dev deps")
        sizes = {name: {**packages, **own}[name].kilobytes * 1024 for name in needed}
        row(title, len(needed), sum(sizes.values()))
        row("of it Muster's own", len(needed & set(own)), sum(sizes[name] for name in needed & set(own)))
        torch = [name for name in needed if name.startswith("libtorch")]
        row("of it LibTorch's", len(torch), sum(sizes[name] for name in torch))


def print_python():
    for title, environment, package in PEERS:
        python = os.path.join("build/peers", environment, "bin/python")
        if not os.path.exists(python):
            print(f"{title} is left out: ./dev peers {environment} makes it.", file=sys.stderr)
            continue
        size, count = subprocess.check_output([python, "-c", SIZE_OF_PACKAGE, package], text=True).split()
        row(f"{title}: {package}", count, int(size))


def main():
    print("| | packages | MB |\n|---|---:|---:|")
    print_debian(sys.argv[1] if len(sys.argv) > 1 else "build/release/package")
    print_python()


if __name__ == "__main__":
    main()
