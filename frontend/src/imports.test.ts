/** Folders import only what is listed above them, never a folder inside another, and files import each other in no circle. */

import ts from 'typescript';
import { expect, test, vi } from 'vitest';

vi.setConfig({ testTimeout: 60_000 });

const FILES = import.meta.glob<string>('./**/*.{ts,tsx}', { query: '?raw', import: 'default', eager: true });
/** From what all use to what uses all. The folders of one line may import each other. */
const ORDER = [
  ['api', 'components', 'locales', 'session', 'shared', 'styles'],
  ['fields'],
  ['viewer'],
  ['run'],
  ['records'],
  ['documents'],
  ['approvals'],
  ['history'],
  ['question'],
  ['conversation'],
  ['chat'],
  ['document'],
  ['tables'],
  ['inbox'],
  ['ask'],
  ['home'],
  ['quality'],
  ['runs'],
  ['schemas'],
  ['settings'],
  ['shell'],
  ['router.tsx'],
  ['main.tsx'],
];

interface Import {
  target: string;
  /** It is needed before the file runs: neither a type nor an `import()`. */
  isNow: boolean;
}

const names = Object.keys(FILES).filter((name) => !/\.test\.|\.d\.ts$/.test(name));

function importsOf(name: string): Import[] {
  const source = ts.createSourceFile(name, FILES[name]!, ts.ScriptTarget.ES2023);
  const found: Import[] = [];
  const add = (specifier: ts.Node | undefined, isNow: boolean) => {
    if (specifier === undefined || !ts.isStringLiteral(specifier) || !specifier.text.startsWith('.')) return;
    const path = new URL(specifier.text, `file:///${name.slice(2)}`).pathname.slice(1);
    const target = [`./${path}.ts`, `./${path}.tsx`].find((one) => one in FILES);
    if (target !== undefined) found.push({ target, isNow });
  };
  const visit = (node: ts.Node) => {
    if (ts.isImportDeclaration(node)) {
      const { importClause: clause } = node;
      const bindings = clause?.namedBindings;
      const isTypes =
        bindings !== undefined &&
        ts.isNamedImports(bindings) &&
        clause?.name === undefined &&
        bindings.elements.every((one) => one.isTypeOnly);
      add(node.moduleSpecifier, clause?.isTypeOnly !== true && !isTypes);
    } else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, !node.isTypeOnly);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword)
      add(node.arguments[0], false);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const imports = new Map(names.map((name) => [name, importsOf(name)]));

test('no file imports itself through others', () => {
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (name: string, path: readonly string[]) => {
    const start = path.indexOf(name);
    if (start >= 0) circles.push([...path.slice(start), name].join(' → '));
    if (start >= 0 || done.has(name)) return;
    for (const next of imports.get(name) ?? []) if (next.isNow) visit(next.target, [...path, name]);
    done.add(name);
  };
  for (const name of names) visit(name, []);
  expect(names.length).toBeGreaterThan(100);
  expect(circles).toEqual([]);
});

test('folders import only what is listed above them, and never a folder inside another', () => {
  const folderOf = (name: string) => name.split('/')[1]!;
  const rankOf = (name: string) => ORDER.findIndex((line) => line.includes(folderOf(name)));
  expect(names.filter((name) => rankOf(name) < 0)).toEqual([]);
  const wrong = [...imports].flatMap(([name, found]) =>
    found
      .filter(({ target }) => folderOf(target) !== folderOf(name))
      .filter(({ target }) => rankOf(target) > rankOf(name) || (rankOf(target) > 0 && target.split('/').length > 3))
      .map(({ target }) => `${name} → ${target}`),
  );
  expect(wrong).toEqual([]);
});
