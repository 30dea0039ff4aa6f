/** The catalogues have the same keys and placeholders; every key is used; no component has text outside of them. */

import ts from 'typescript';
import { expect, test, vi } from 'vitest';
import ERROR_CODES from '../../../docs/errors.md?raw';
import de from '../locales/de.json';
import en from '../locales/en.json';

vi.setConfig({ testTimeout: 60_000 });

const FILES = import.meta.glob<string>('../**/*.{ts,tsx}', { query: '?raw', import: 'default', eager: true });
const VISIBLE_ATTRIBUTES = new Set([
  'alt',
  'aria-label',
  'aria-description',
  'hint',
  'label',
  'placeholder',
  'question',
  'title',
]);
/** Names of keys, and the product. */
const LITERALS = new Set(['Enter', 'Esc', 'Tab', 'G', '⌘K', 'Alt Enter', '↑', '↓', 'Fieldmark', '×', '…', '→']);

type Tree = { readonly [key: string]: string | Tree };

function texts(tree: Tree, path = ''): Map<string, string> {
  const all = new Map<string, string>();
  for (const [key, value] of Object.entries(tree)) {
    const at = path === '' ? key : `${path}.${key}`;
    if (typeof value === 'string') all.set(at, value);
    else for (const [below, text] of texts(value, at)) all.set(below, text);
  }
  return all;
}

const SOURCES = Object.entries(FILES)
  .filter(([name]) => !/\.test\.|description\.d\.ts$/.test(name))
  .map(([name, text]) => ts.createSourceFile(name, text, ts.ScriptTarget.ES2023, true));

function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  ts.forEachChild(node, (child) => walk(child, visit));
}

/** The texts that a JSX expression can render, without those passed to functions. */
function literalsOf(node: ts.Node): string[] {
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return [node.text];
  if (ts.isTemplateExpression(node))
    return [
      node.head.text,
      ...node.templateSpans.flatMap((span) => [span.literal.text, ...literalsOf(span.expression)]),
    ];
  if (ts.isConditionalExpression(node)) return [...literalsOf(node.whenTrue), ...literalsOf(node.whenFalse)];
  if (ts.isParenthesizedExpression(node) || ts.isNonNullExpression(node)) return literalsOf(node.expression);
  if (ts.isBinaryExpression(node)) {
    const isResult = ['&&', '||', '??', '+'].includes(node.operatorToken.getText());
    return isResult
      ? [...(node.operatorToken.getText() === '&&' ? [] : literalsOf(node.left)), ...literalsOf(node.right)]
      : [];
  }
  return [];
}

function hasWords(text: string): boolean {
  return /\p{L}/u.test(text) && !LITERALS.has(text.trim());
}

const english = texts(en);
const german = texts(de);
const placeholders = (text: string | undefined) =>
  [...(text ?? '').matchAll(/\{\{[^}]*\}\}/g)].map(([one]) => one).sort();

test('both catalogues have the same keys, in the same order, with the same placeholders', () => {
  expect([...german.keys()]).toEqual([...english.keys()]);
  const different = [...english]
    .filter(([key, text]) => `${placeholders(text)}` !== `${placeholders(german.get(key))}`)
    .map(([key]) => key);
  expect(different).toEqual([]);
  expect([...english, ...german].filter(([, text]) => text.trim() === '')).toEqual([]);
});

test('every code of the service has a text', () => {
  const missing: string[] = [];
  for (const [title, group] of Object.entries({
    Problems: 'errors',
    Documents: 'readingErrors',
    Warnings: 'warnings',
    Runs: 'runErrors',
    Violations: 'violations',
  })) {
    const table = ERROR_CODES.split(`\n## ${title}\n`)[1]!.split('\n## ')[0]!;
    const codes = [...table.matchAll(/^\| (.+?) \|/gm)].flatMap(([, cell]) =>
      [...cell!.matchAll(/`([a-z_]+)`/g)].map(([, code]) => code!),
    );
    expect(codes.length).toBeGreaterThan(4);
    missing.push(
      ...codes.map((code) => `${group}.${code}`).filter((key) => !english.has(key) && !english.has(`${key}_one`)),
    );
  }
  expect(missing).toEqual([]);
});

test('every key is used', () => {
  const literals = new Set<string>();
  const patterns: RegExp[] = [];
  for (const source of SOURCES) {
    walk(source, (node) => {
      if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) literals.add(node.text);
      if (!ts.isTemplateExpression(node) || !/^[a-zA-Z]+\./.test(node.head.text)) return;
      const parts = [node.head.text, ...node.templateSpans.map((span) => span.literal.text)];
      patterns.push(new RegExp(`^${parts.map((part) => part.replaceAll('.', '\\.')).join('[\\w.-]+')}$`));
    });
  }
  const names = new Set([...english.keys()].map((key) => key.replace(/_(one|other)$/, '')));
  const unused = [...names].filter((name) => !literals.has(name) && !patterns.some((pattern) => pattern.test(name)));
  expect(unused).toEqual([]);
});

test('no component has text outside of the catalogues', () => {
  const found: string[] = [];
  for (const source of SOURCES) {
    walk(source, (node) => {
      const rendered = ts.isJsxText(node)
        ? [node.text]
        : ts.isJsxExpression(node) && node.expression !== undefined && !ts.isJsxAttribute(node.parent)
          ? literalsOf(node.expression)
          : ts.isJsxAttribute(node) && VISIBLE_ATTRIBUTES.has(node.name.getText()) && node.initializer !== undefined
            ? literalsOf(
                ts.isJsxExpression(node.initializer)
                  ? (node.initializer.expression ?? node.initializer)
                  : node.initializer,
              )
            : ts.isCallExpression(node) && node.expression.getText() === 'toast'
              ? node.arguments.slice(0, 1).flatMap(literalsOf)
              : [];
      found.push(...rendered.filter(hasWords).map((text) => `${source.fileName}: ${text.trim()}`));
    });
  }
  expect(found).toEqual([]);
});
