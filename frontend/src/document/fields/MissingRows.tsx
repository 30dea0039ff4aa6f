/** Printed lines that look like rows of a list and are in none of its items: a hint, with a button that adds each. */

import { useQuery } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import type { Box, Extraction, MissingRow } from '../../api/types';
import { Button } from '../../components/ui/Button';
import { useCanWrite } from '../../session/role';
import { visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import { useShortcut } from '../../shared/shortcuts/useShortcut';
import { missingRowsQuery } from '../../fields/extractionQueries';
import type { SchemaField } from '../../fields/schemaFields';
import type { Mark } from '../../fields/fieldTree';
import { pathLabel } from '../../fields/labels';
import type { Decisions } from '../../fields/useDecisions';

const ADD = { id: 'document.addRow', keys: 'i' } as const;
const NONE: readonly MissingRow[] = [];

/** Nothing is loaded while the fields have no list of objects. */
export function useMissingRows(extraction: Extraction | undefined): readonly MissingRow[] {
  const hasLists = Object.keys(extraction?.evidence ?? {}).some((path) => /\[\d+\]\./.test(path));
  const query = missingRowsQuery(extraction?.id ?? '', extraction?.version ?? 0);
  return useQuery({ ...query, enabled: hasLists }).data ?? NONE;
}

/** Add the boxes of the lines to those of fields. */
export function withMissingRows(marks: Map<number, Mark[]>, lines: readonly MissingRow[]): Map<number, Mark[]> {
  for (const { path, page, boxes } of lines)
    for (const box of boxes)
      marks.set(page, [...(marks.get(page) ?? []), { path: ` ${path}`, box: box as Box, status: 'unmapped' }]);
  return marks;
}

interface Props {
  extraction: Extraction;
  schema: readonly SchemaField[];
  lines: readonly MissingRow[];
  decisions: Decisions;
  onPlace: (page: number, box: Box) => void;
}

export function MissingRows({ extraction, schema, lines, decisions, onPlace }: Props) {
  const canWrite = useCanWrite();
  const add = ({ path, value }: MissingRow) => void decisions.write(extraction.id, path, value, { was: null });
  useShortcut(ADD, () => add(lines[0]!), canWrite && lines.length > 0);
  const lists = [...new Set(lines.map((one) => listOf(one.path)))];
  return lists.map((list) => {
    const own = lines.filter((one) => listOf(one.path) === list);
    const label = pathLabel(list, schema);
    return (
      <section
        key={list}
        aria-label={t('fields.missingRows.label', { list: label })}
        className="mx-4 mb-3 rounded-lg border border-border p-3">
        <p className="text-muted-foreground">{t('fields.missingRows.hint', { count: own.length, list: label })}</p>
        {own.map((one) => (
          <div key={one.path} className="mt-1.5 flex min-h-8 items-center gap-2">
            <button
              type="button"
              className="min-w-0 flex-1 truncate text-left"
              title={visibleText(one.text)}
              onClick={() => onPlace(one.page, one.boxes[0] as Box)}>
              <span className="text-xs text-muted-foreground">{t('common.page', { page: one.page })}</span>{' '}
              {visibleText(one.text)}
            </button>
            <Button icon={Plus} disabled={!canWrite} {...(one === lines[0] && { keys: 'I' })} onClick={() => add(one)}>
              {t('fields.missingRows.add')}
            </Button>
          </div>
        ))}
      </section>
    );
  });
}

/** `items[4]` is added to `items`. */
function listOf(path: string): string {
  return path.slice(0, path.lastIndexOf('['));
}
