from __future__ import annotations

import pytest

from pagewords.formula import mathml_line, omml_line
from pagewords.open_xml import parse_xml

OMML_NAMESPACE = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def run(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


def omml_element(name: str, content: str) -> str:
    return f"<m:{name}>{content if '<' in content else run(content)}</m:{name}>"


def element(name: str, properties: str = "", /, **parts: str) -> str:
    inner = "".join(omml_element(key, value) for key, value in parts.items())
    return f"<m:{name}><m:{name}Pr><m:ctrlPr/>{properties}</m:{name}Pr>{inner}</m:{name}>"


ONE_HALF = element("f", num="1", den="2")
TEN_TO_THE_FIFTH = element("sSup", e="10", sup="5")
ROW = "<m:mr><m:e>{}</m:e><m:e>{}</m:e></m:mr>"


@pytest.mark.parametrize(
    ("formula", "line"),
    [
        (ONE_HALF, "1/2"),
        (run("2") + ONE_HALF + run("3"), "2 1/2 3"),
        (run("a=") + ONE_HALF + run("+b"), "a=1/2+b"),
        (element("f", num=run("a+b"), den=ONE_HALF), "(a+b)/(1/2)"),
        (element("f", "<m:type m:val='noBar'/>", num="n", den="k"), "n; k"),
        (TEN_TO_THE_FIFTH, "10⁵"),
        (TEN_TO_THE_FIFTH + run("m"), "10⁵ m"),
        (element("sSup", e="10", sup="-3"), "10⁻³"),
        (element("sSup", e="x", sup="n+1"), "x^(n+1)"),
        (element("sSup", e="90", sup="∘"), "90°"),
        (element("sSup", e=TEN_TO_THE_FIFTH, sup="2"), "(10⁵)²"),
        (element("sSup", e="-5", sup="2"), "(-5)²"),
        (element("sSub", e="x", sub="12"), "x₁₂"),
        (element("sSub", e="x", sub="i,j"), "x_i,j"),
        (element("sSubSup", e="x", sub="1", sup="2"), "x₁²"),
        (element("sPre", sub="6", sup="14", e="C"), "₆¹⁴C"),
        (element("rad", "<m:degHide m:val='1'/>", deg="<m:x/>", e="16"), "√16"),
        (element("rad", deg="3", e="x+1"), "∛(x+1)"),
        (element("rad", deg="n", e="2"), "√[n]2"),
        (element("nary", "<m:chr m:val='∑'/>", sub="i=1", sup="10", e="a"), "∑_(i=1)¹⁰ a"),
        (element("nary", sub="0", sup="1", e="x"), "∫₀¹ x"),
        (element("d", e="x+1"), "(x+1)"),
        (f"<m:d><m:dPr><m:endChr m:val=''/></m:dPr>{omml_element('e', '1')}{omml_element('e', '2')}</m:d>", "(1|2"),
        (
            f"<m:m>{ROW.format(run('1'), run('2'))}{ROW.format(run('3'), run('4'))}</m:m>",
            "1  2; 3  4",
        ),
        (f"<m:eqArr>{omml_element('e', 'a=1')}{omml_element('e', 'b=2')}</m:eqArr>", "a=1; b=2"),
        (element("func", fName="sin", e="x"), "sin x"),
        (element("limLow", e="lim", lim="x→0"), "lim_(x→0)"),
        (element("acc", "<m:chr m:val='&#x304;'/>", e="x"), "x̄"),
        (element("phant", "<m:show m:val='0'/>", e="secret") + run("1"), "1"),
        (run("1") + run("2"), "12"),  # one number in two runs
    ],
)
def test_word_formula_becomes_one_line(formula: str, line: str) -> None:
    root = parse_xml(f"<m:oMath {OMML_NAMESPACE}>{formula}</m:oMath>".encode())
    assert omml_line(root, lambda node: "".join(node.itertext())) == line


@pytest.mark.parametrize("namespace", ["", " xmlns='http://www.w3.org/1998/Math/MathML'"])
@pytest.mark.parametrize(
    ("formula", "line"),
    [
        ("<mn>2</mn><mfrac><mn>1</mn><mn>2</mn></mfrac><mn>3</mn>", "2 1/2 3"),
        ("<mn>2</mn><mo>&#x2064;</mo><mn>3</mn>", "2 3"),
        ("<mn>1</mn><mn>2</mn>", "1 2"),
        ("<mn>2</mn><mi>x</mi><mo>+</mo><mn>1</mn><mo>,</mo><mn>5</mn>", "2x+1,5"),
        ("<mn>5</mn><mi>kg</mi>", "5 kg"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>", "(a+b)/2"),
        ("<msup><mn>10</mn><mn>50</mn></msup><mi>m</mi>", "10⁵⁰ m"),
        ("<msub><mi>x</mi><mn>1</mn></msub>", "x₁"),
        ("<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>", "x_i²"),
        ("<msqrt><mi>x</mi><mo>+</mo><mn>1</mn></msqrt><mroot><mn>8</mn><mn>3</mn></mroot>", "√(x+1)∛8"),
        ("<munderover><mo>∑</mo><mn>0</mn><mi>n</mi></munderover>", "∑₀^n"),
        ("<mover><mi>x</mi><mo>^</mo></mover>", "x^"),
        ("<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd></mtr></mtable>",
         "1  2; 3"),
        ("<mfenced open='['><mn>1</mn><mn>2</mn></mfenced>", "[1,2)"),
        ("<semantics><mrow><mn>1</mn></mrow><annotation>{1}</annotation></semantics>", "1"),
        ("<mmultiscripts><mi>C</mi><mn>2</mn><none/><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>", "₆¹⁴C₂"),
        ("<mrow>loose<mn>1</mn></mrow>", "loose1"),
        ("<unknown>7</unknown>", "7"),
    ],
)  # fmt: skip
def test_mathml_formula_becomes_one_line(formula: str, line: str, namespace: str) -> None:
    root = parse_xml(f"<math{namespace}>{formula}</math>".encode())
    assert mathml_line(root, lambda node: "".join(node.itertext())) == line
