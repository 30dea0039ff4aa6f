/** One row of the fields: label, value, and status or confidence. */

import { memo } from 'react';
import { formatPercent, visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import { Icon } from '../../shared/Icon';
import { FieldEditor, type Edited } from './FieldEditor';
import styles from './FieldPanel.module.css';
import { isStored, type FieldRow } from './fieldTree';
import { displayValue } from './fieldValue';
import { statusLabel, statusSign, statusText, type Status } from './fieldStatus';

interface Props {
  id: string;
  row: FieldRow;
  top: number;
  chosen: boolean;
  editing: boolean;
  changed: boolean;
  onFlashed: () => void;
  onChoose: (path: string) => void;
  onEdit: () => void;
  onFinish: (path: string, value?: Edited) => void;
}

export const FieldTreeRow = memo(function FieldTreeRow({
  id,
  row,
  top,
  chosen,
  editing,
  changed,
  onFlashed,
  onChoose,
  onEdit,
  onFinish,
}: Props) {
  const names = [styles.row, row.kind === 'group' && styles.group, changed && styles.changed];
  if (row.kind === 'leaf' && !isStored(row)) names.push(styles.preview);
  const value = row.kind === 'leaf' ? displayValue(row.value, row.field, row.evidence?.quote) : '';
  return (
    <div
      id={id}
      role="treeitem"
      aria-level={row.depth + 1}
      aria-selected={chosen}
      aria-expanded={row.kind === 'group' ? true : undefined}
      className={names.filter(Boolean).join(' ')}
      style={{ transform: `translateY(${top}px)`, paddingLeft: `${0.75 + row.depth * 1}rem` }}
      data-path={row.path}
      onAnimationEnd={onFlashed}
      onClick={() => onChoose(row.path)}
      onDoubleClick={() => row.kind === 'leaf' && isStored(row) && onEdit()}>
      <span className={`${styles.label} truncate`} title={visibleText(row.path)}>
        {row.label}
      </span>
      {row.kind === 'group' ? (
        <span className="muted">{row.isList ? t('fields.items', { count: row.size }) : ''}</span>
      ) : editing ? (
        <FieldEditor
          value={row.value}
          label={row.label}
          type={row.field?.type}
          onFinish={(value) => onFinish(row.path, value)}
        />
      ) : (
        <span className={`${styles.value} truncate`} title={value}>
          {value}
        </span>
      )}
      {row.status !== undefined && (
        <StatusSign
          status={row.status}
          reason={row.reason}
          confidence={row.kind === 'leaf' ? row.confidence : undefined}
        />
      )}
    </div>
  );
});

/** Of a value that was found its confidence; else why a person has to look at it, or what a person decided. */
function StatusSign({ confidence, ...status }: Status & { confidence: number | undefined }) {
  const { tone, icon } = statusSign(status);
  const label = statusLabel(status);
  const isFound = status.status === 'found';
  return (
    <span className={`${styles.sure} ${tone === 'plain' ? '' : styles[tone]}`} title={statusText(status)}>
      {isFound && confidence !== undefined
        ? formatPercent(confidence)
        : isFound || status.status === 'confirmed'
          ? ''
          : label}
      {icon !== undefined && <Icon name={icon} size={13} />}
      <span className="sr-only">{label}</span>
    </span>
  );
}
