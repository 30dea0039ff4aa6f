/** The fields of one extraction: the tree, and the details of the selected field. */

import { useState } from 'react';
import type { Box, Extraction, RuleFix } from '../../api/types';
import { useShortcut } from '../../shared/shortcuts/useShortcut';
import type { SchemaField } from '../schemaFields';
import { FieldDetails } from './FieldDetails';
import { AddField } from './AddField';
import styles from './FieldPanel.module.css';
import { FieldTree } from './FieldTree';
import { isStored, type FieldRow } from './fieldTree';
import { proposalOf } from './proposals';
import { pathSteps, valueAt } from './paths';
import { useFieldChanges } from './useFieldChanges';

const NEXT = { id: 'field.next', keys: 'j' } as const;
const PREVIOUS = { id: 'field.previous', keys: 'k' } as const;
const EDIT = { id: 'field.edit', keys: 'e' } as const;

interface Props {
  extraction: Extraction | undefined;
  schema: readonly SchemaField[];
  canWrite: boolean;
  rows: readonly FieldRow[];
  chosen: string | null;
  changed: ReadonlyMap<string, number>;
  ruleFixes: readonly RuleFix[];
  onChoose: (path: string) => void;
  onPlace: (page: number, box: Box) => void;
}

export function FieldPanel({
  extraction,
  schema,
  canWrite,
  rows,
  chosen,
  changed,
  ruleFixes,
  onChoose,
  onPlace,
}: Props) {
  const [editing, setEditing] = useState(false);
  const changes = useFieldChanges(extraction);
  const row = rows.find((one) => one.path === chosen);
  const proposal = row?.reason === 'proposal' ? proposalOf(extraction?.proposals ?? [], row.path) : undefined;

  const choose = (path: string) => {
    if (path !== chosen) setEditing(false);
    onChoose(path);
  };
  const step = (by: 1 | -1) => {
    const leaves = rows.filter((one) => one.kind === 'leaf');
    const at = leaves.findIndex((one) => one.path === chosen);
    const next = leaves[Math.max(0, Math.min(leaves.length - 1, at < 0 ? 0 : at + by))];
    if (next !== undefined) choose(next.path);
  };
  const canEdit = canWrite && row?.kind === 'leaf' && isStored(row);
  useShortcut(NEXT, () => step(1));
  useShortcut(PREVIOUS, () => step(-1));
  useShortcut(EDIT, () => setEditing(true), canEdit);

  return (
    <div className={styles.panel}>
      <FieldTree
        rows={rows}
        chosen={chosen}
        editing={editing && canWrite}
        changed={changed}
        onChoose={choose}
        onEdit={(is) => setEditing(is && canWrite)}
        onWrite={(path, { edited, was }) => changes.mutate({ path, value: edited, was })}
      />
      {canWrite && extraction !== undefined && (
        <div className={styles.foot}>
          <AddField
            extraction={extraction}
            schema={schema}
            onAdd={(path, value) => changes.mutate({ path, value, was: undefined })}
          />
        </div>
      )}
      <FieldDetails
        row={row}
        canWrite={canWrite}
        proposal={proposal}
        onEdit={() => setEditing(true)}
        onConfirm={() => row !== undefined && changes.mutate({ path: row.path, confirm: true })}
        onBlank={() => row?.kind === 'leaf' && changes.mutate({ path: row.path, value: null, was: row.value })}
        onDecide={(accept) => proposal !== undefined && changes.mutate({ path: proposal.path, accept })}
        ruleFixes={ruleFixes}
        onUse={(path, value) =>
          changes.mutate({ path, value, was: valueAt(extraction?.extracted_fields, pathSteps(path) ?? []) })
        }
        extraction={extraction}
        schema={schema}
        onPlace={onPlace}
        onUnlock={() => row !== undefined && changes.mutate({ path: row.path, unlock: true })}
      />
    </div>
  );
}
