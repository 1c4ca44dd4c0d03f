"""JUnit's XML, as Jenkins, GitLab and pytest's ``--junit-xml`` know it: a suite for each student, a case for each part.

By junit-10.xsd of https://github.com/jenkinsci/xunit-plugin. What was not handed in is a failure, what the kit could
not judge an error: neither is green. The file is the teacher's: it has every student's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree

from gemm_lessons.grading.escaping import amount, one_line
from gemm_lessons.grading.formats.lines import lines_of
from gemm_lessons.grading.gradebook import Gradebook

ELEMENT = {"failed": "failure", "missing": "failure", "broken": "error"}


def files(book: Gradebook, _environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``junit.xml`` of the whole class."""
    root = ElementTree.Element("testsuites", name="gemm-lessons grade")
    for row in book.rows:
        student, lines = one_line(row.student.id), list(lines_of(book, row))
        suite = ElementTree.SubElement(
            root, "testsuite", name=student, tests=str(len(lines)), time=f"{row.seconds:.3f}",
            failures=str(sum(line.kind in ("failed", "missing") for line in lines)),
            errors=str(sum(line.kind == "broken" for line in lines)),
        )  # fmt: skip
        for line in lines:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"{student}.{line.lesson}", name=line.name, time=f"{line.seconds:.3f}"
            )
            points = f"{amount(line.points)} of {amount(line.out_of)} points"
            if line.kind in ELEMENT:
                first = line.output.partition("\n")[0]
                what = ElementTree.SubElement(case, ELEMENT[line.kind], type=line.kind, message=first or points)
                what.text = f"{points}\n{line.output}"
            else:
                ElementTree.SubElement(case, "system-out").text = points
    ElementTree.indent(root)
    return {"junit.xml": ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"}
