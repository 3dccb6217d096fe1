"""Kinds of cases that tools/peers/compare.py generates. Each module has

    generate(random) -> program     a dict of JSON values, from a random.Random
    run(program) -> (inputs, expected)  dicts of numpy arrays: what Muster is given, what the peer computed;
                                        a third dict has the bytes of files beside the case: {".end of the name": ...}

and its name is the kind; tests/peers has the function that runs it in Muster. run() follows from the program alone; an
exception of it says that the peer refuses the program.
"""
