/** The source of a cell: an excerpt of the page, the confidence, and what can be done with the value. Or why a row failed.
 * The grid keeps the focus: its keys do the same. */

import { Popover } from '@base-ui/react/popover';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode, RefObject } from 'react';
import type { Box, Evidence, ReadRow, RecordCell } from '../api/types';
import { extractionQuery } from '../document/documentPageQueries';
import { Crop } from '../document/viewer/Crop';
import { Badge } from '../shared/Badge';
import { Button } from '../components/ui/Button';
import { formatPercent } from '../shared/format';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { canBeBlank, statusSign } from '../document/fields/fieldStatus';
import { ProposedValue } from '../document/fields/ProposedValue';
import { proposalOf } from '../document/fields/proposals';
import { cellStatus, cellStatusText } from './cellStatus';
import styles from './CellPopover.module.css';
import { displayCell } from './cellValue';
import type { GridColumn } from './gridColumns';

const CROP_WIDTH = 640; // pixels: sharp on high-density screens

/** Characters: a longer value is cut off in its cell, and may be cut off in the excerpt. */
const SHORT = 30;

interface FrameProps {
  anchor: () => Element | null;
  grid: RefObject<HTMLElement | null>;
  onClose: () => void;
}

interface Props extends FrameProps {
  row: ReadRow;
  column: GridColumn;
  cell: RecordCell | undefined;
  /** Why the value is unusual. */
  outlier: string | undefined;
  canWrite: boolean;
  onEdit: () => void;
  /** Confirm the value; with a proposal: reject that. */
  onConfirm: () => void;
  onAccept: () => void;
  /** The document has no such value. */
  onBlank: () => void;
  onOpen: () => void;
}

export function CellPopover({
  anchor,
  grid,
  row,
  column,
  cell,
  outlier,
  canWrite,
  onClose,
  onEdit,
  onConfirm,
  onAccept,
  onBlank,
  onOpen,
}: Props) {
  const isProposed = cell?.reason === 'proposal';
  // A proposal does not change the version: one that is not shown yet may have come since.
  const extraction = useQuery({ ...extractionQuery(row.extraction_id), ...(isProposed && { staleTime: 0 }) });
  const evidence = cell === undefined ? undefined : (extraction.data?.evidence[cell.path] as Evidence | undefined);
  const box = evidence?.boxes?.[0] as Box | undefined;
  const status = cellStatus(cell);
  const { tone, icon } = statusSign(status);
  const isDecided = status.status === 'confirmed' || status.status === 'accepted';
  const facts = [
    cell?.confidence != null && !isDecided && formatPercent(cell.confidence),
    cell?.page != null && t('common.pageFirst', { page: cell.page }),
  ].filter(Boolean);
  const text = displayCell(cell, column);
  const breaks = cell?.reason === 'breaks_schema' || cell?.reason === 'breaks_rule';
  const proposed = isProposed ? proposalOf(extraction.data?.proposals ?? [], cell.path) : undefined;
  const isLoading = proposed === undefined && extraction.isFetching;
  return (
    <Frame anchor={anchor} grid={grid} label={t('tables.sourceOf', { field: column.label })} onClose={onClose}>
      <div className={styles.head}>
        <b className="truncate">{column.label}</b>
        <span className="muted">{facts.join(' · ')}</span>
        <Badge tone={tone} icon={icon}>
          {cellStatusText(cell, evidence)}
        </Badge>
      </div>
      {evidence?.page != null && box !== undefined ? (
        <div className={styles.crop}>
          <Crop documentId={row.document_id} page={evidence.page} box={box} width={CROP_WIDTH} />
        </div>
      ) : (
        <p className={styles.value}>{text === '' ? t('fields.statuses.not_written') : text}</p>
      )}
      {box !== undefined && text.length > SHORT && <p className={styles.long}>{text}</p>}
      {cell?.quote != null && cell.quote !== String(cell.value) && (
        <p className="muted">{t('tables.printed', { quote: cell.quote })}</p>
      )}
      {proposed !== undefined && (
        <div className={styles.long}>
          <ProposedValue proposal={proposed} path={cell!.path} schema={[]} />
        </div>
      )}
      {outlier !== undefined && (
        <p className={styles.outlier}>
          <Icon name="outlier" size={13} /> {outlier}
        </p>
      )}
      <div className={styles.buttons}>
        {canWrite && (text !== '' || isProposed) && (
          <Button
            kind="main"
            disabled={isProposed && isLoading}
            onClick={onConfirm}
            title={t(isProposed ? 'tables.keepHint' : 'tables.confirmHint')}>
            <Icon name="check" /> {t(isProposed ? 'fields.keepCurrent' : breaks ? 'fields.keep' : 'common.confirm')}
          </Button>
        )}
        {canWrite && isProposed && (
          <Button disabled={isLoading} onClick={onAccept} title={t('tables.acceptHint')}>
            {t('fields.acceptProposal')}
          </Button>
        )}
        {canWrite && !isProposed && canBeBlank(status, cell?.value) && (
          <Button onClick={onBlank} title={t('tables.blankHint')}>
            {t('fields.notInDocument')}
          </Button>
        )}
        {canWrite && <Button onClick={onEdit}>{t('common.edit')}</Button>}
        <Button kind="quiet" onClick={onOpen}>
          {t('tables.openDocument')}
        </Button>
      </div>
    </Frame>
  );
}

/** Why a row failed or is incomplete, and what can be done. `onReadAgain`: undefined if no run can read it again. */
export function RowPopover({
  text,
  onReadAgain,
  onOpen,
  ...frame
}: FrameProps & { text: string; onReadAgain: (() => void) | undefined; onOpen: () => void }) {
  return (
    <Frame {...frame} label={t('tables.rowActions')}>
      <p className={styles.failure}>{text}</p>
      <div className={styles.buttons}>
        {onReadAgain !== undefined && (
          <Button kind="main" onClick={onReadAgain}>
            <Icon name="spark" /> {t('tables.readAgain')}
          </Button>
        )}
        <Button kind="quiet" onClick={onOpen}>
          {t('tables.openDocument')}
        </Button>
      </div>
    </Frame>
  );
}

function Frame({ anchor, grid, label, onClose, children }: FrameProps & { label: string; children: ReactNode }) {
  return (
    <Popover.Root
      open
      onOpenChange={(_, { event }) => {
        // A press on another cell opens its own source.
        if (!grid.current?.contains(event.target as Node | null)) onClose();
      }}>
      <Popover.Portal>
        <Popover.Positioner
          className={styles.place}
          anchor={anchor}
          side="bottom"
          align="start"
          sideOffset={6}
          collisionPadding={8}>
          <Popover.Popup className={styles.popup} initialFocus={false} finalFocus={false} aria-label={label}>
            {children}
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}
