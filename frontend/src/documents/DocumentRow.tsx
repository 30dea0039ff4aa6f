/** One row of the document list. */

import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import type { Document } from '../api/types';
import { Button } from '../components/ui/Button';
import { readingErrorText } from '../shared/codeText';
import { formatAge, formatBytes, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Menu, MenuItem } from '../components/ui/Menu';
import { Icon } from '../shared/Icon';
import styles from './DocumentsPage.module.css';
import { StageBadge } from './StageBadge';

interface Props {
  document: Document;
  canDelete: boolean;
  onDelete: (document: Document) => void;
}

export const DocumentRow = memo(function DocumentRow({ document, canDelete, onDelete }: Props) {
  const size = [
    document.page_count !== null && t('common.pages', { count: document.page_count }),
    document.byte_size !== null && formatBytes(document.byte_size),
  ].filter((one) => one !== false);
  const why =
    document.error === null || document.error_code === 'password'
      ? null
      : readingErrorText(document.error_code, document.error);
  return (
    <>
      <div className={styles.name} role="cell">
        <Icon name="page" />
        <Link
          to="/documents/$documentId"
          params={{ documentId: document.id }}
          className={`${styles.link} truncate`}
          title={visibleText(document.filename)}>
          {visibleText(document.filename)}
        </Link>
        {document.tags.map((tag) => (
          <span key={tag.id} className={styles.tag}>
            <span className={styles.dot} style={{ background: tag.color }} />
            {visibleText(tag.name)}
          </span>
        ))}
      </div>
      <div role="cell" className="truncate">
        <StageBadge document={document} />
        {why !== null && (
          <span className={styles.why} title={why}>
            {why}
          </span>
        )}
      </div>
      <div role="cell" className={`${styles.third} soft truncate`}>
        {size.join(' · ')}
      </div>
      <div role="cell" className={`${styles.second} soft truncate`} title={formatTime(document.created_at)}>
        {formatAge(document.created_at)}
      </div>
      <div role="cell" className={styles.more}>
        {canDelete && (
          <Menu
            trigger={
              <Button kind="quiet" label={t('documents.actionsFor', { name: visibleText(document.filename) })}>
                <Icon name="more" />
              </Button>
            }>
            <MenuItem onChoose={() => onDelete(document)}>
              <Icon name="bin" /> {t('common.delete')}
            </MenuItem>
          </Menu>
        )}
      </div>
    </>
  );
});
