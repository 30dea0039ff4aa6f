/** Files import each other in no circle, and what all areas use imports no area. */

import ts from 'typescript';
import { expect, test, vi } from 'vitest';

vi.setConfig({ testTimeout: 60_000 });

const FILES = import.meta.glob<string>('./**/*.{ts,tsx}', { query: '?raw', import: 'default', eager: true });
/** Used by all areas. */
const BASE = ['api', 'components', 'locales', 'shared', 'styles'];
/** Who is signed in is known to the client of the API. */
const ALLOWED = new Map([['api', ['session']]]);

const names = Object.keys(FILES).filter((name) => !/\.test\.|description\.d\.ts$/.test(name));

/** The files that a file needs before it runs. Types and `import()` are left out. */
function importsOf(name: string): string[] {
  const source = ts.createSourceFile(name, FILES[name]!, ts.ScriptTarget.ES2023);
  return source.statements.flatMap((statement) => {
    if (!ts.isImportDeclaration(statement) || statement.importClause?.isTypeOnly === true) return [];
    const bindings = statement.importClause?.namedBindings;
    const isTypes =
      bindings !== undefined &&
      ts.isNamedImports(bindings) &&
      statement.importClause?.name === undefined &&
      bindings.elements.every((one) => one.isTypeOnly);
    const path = (statement.moduleSpecifier as ts.StringLiteral).text;
    if (isTypes || !path.startsWith('.')) return [];
    const found = new URL(path, `file:///${name.slice(2)}`).pathname.slice(1);
    return [`./${found}.ts`, `./${found}.tsx`].filter((one) => one in FILES);
  });
}

const imports = new Map(names.map((name) => [name, importsOf(name)]));

test('no file imports itself through others', () => {
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (name: string, path: readonly string[]) => {
    const start = path.indexOf(name);
    if (start >= 0) circles.push([...path.slice(start), name].join(' → '));
    if (start >= 0 || done.has(name)) return;
    for (const next of imports.get(name) ?? []) visit(next, [...path, name]);
    done.add(name);
  };
  for (const name of names) visit(name, []);
  expect(names.length).toBeGreaterThan(100);
  expect(circles).toEqual([]);
});

test('what all areas use imports no area', () => {
  const folderOf = (name: string) => name.split('/')[1]!;
  const wrong = [...imports].flatMap(([name, targets]) => {
    const own = folderOf(name);
    if (!BASE.includes(own)) return [];
    return targets
      .filter((target) => ![...BASE, ...(ALLOWED.get(own) ?? [])].includes(folderOf(target)))
      .map((target) => `${name} → ${target}`);
  });
  expect(wrong).toEqual([]);
});
