/** The page of a source, with boxes around the cited text. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { Box } from '../api/types';
import type { SourceLocation } from '../conversation/sourceLocation';
import type { Mark } from '../document/fields/fieldTree';
import { PageViewer } from '../document/viewer/PageViewer';
import { documentQuery } from '../documents/documentQueries';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { ErrorNotice } from '../components/ui/Notice';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { Icon } from '../shared/Icon';
import { t } from '../shared/i18n';
import styles from './Ask.module.css';

const CLOSE = { id: 'source.close', keys: 'Escape' } as const;

export function SourceViewer({ place, onClose }: { place: SourceLocation; onClose: () => void }) {
  const { documentId, page, boxes, number, at } = place;
  const document = useQuery(documentQuery(documentId));
  const path = `source ${number ?? ''}`;
  const marks = useMemo(
    () =>
      new Map<number, readonly Mark[]>([
        [page, boxes.map((box) => ({ path, box: box as unknown as Box, status: 'found' as const }))],
      ]),
    [path, page, boxes],
  );
  useShortcut(CLOSE, onClose);
  return (
    <aside className={styles.beside} aria-label={t('ask.source')}>
      <div className={styles.head}>
        {number !== null && <b>{number}</b>}
        <Link to="/documents/$documentId" params={{ documentId }} search={{ page }} className="truncate">
          {visibleText(document.data?.filename ?? '…')}
        </Link>
        <Button kind="quiet" label={t('ask.closeSource')} onClick={onClose}>
          <Icon name="cross" />
        </Button>
      </div>
      {document.isError ? (
        <ErrorNotice error={document.error} />
      ) : (
        document.data !== undefined && (
          <PageViewer
            key={documentId}
            documentId={documentId}
            pages={document.data.page_count ?? 0}
            marks={marks}
            chosen={path}
            place={{ page, box: boxes[0] as unknown as Box | undefined, at }}
            onChoose={() => undefined}
          />
        )
      )}
    </aside>
  );
}
